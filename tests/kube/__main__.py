"""`make kube`: the bench, running until Ctrl-C. Started again, it ends the running one and begins anew."""

import argparse
import os
import signal
import sys
import threading
import time

from tests.kube import place
from tests.kube.bench import Bench
from tests.kube.needs import missing
from tests.kube.programs import BenchError
from tests.kube.setting import WORKERS
from tests.kube.toolchain import BENCH, ToolsMissing, toolchain


def main() -> int:
    """The exit status: 0 after Ctrl-C, 1 when something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube", description=__doc__)
    parser.add_argument("--place", type=int, default=place.KEPT_NUMBER, choices=place.NUMBERS, help=argparse.SUPPRESS)
    number = parser.parse_args().place
    lacking = missing(BENCH)
    if lacking:
        say("make kube cannot run on this machine:")
        for line in lacking:
            say(f"  {line}")
        return 1
    stop = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda _number, _frame: stop.set())
    tools = toolchain()
    try:
        tools.build(BENCH)
    except ToolsMissing as error:
        say(str(error))
        return 1
    started = time.monotonic()
    bench = Bench(place.claim(number), tools, say)
    status = 0
    try:
        bench.start()
        describe(bench, time.monotonic() - started)
        watch(bench, stop, os.getppid() if number != place.KEPT_NUMBER else None)
    except BenchError as error:
        say(f"The bench does not work: {error}")
        status = 1
    finally:
        say("Stopping ...")
        left = bench.close()
    for line in left:
        say(f"could not be removed: {line}")
    return 1 if left else status


def watch(bench: Bench, stop: threading.Event, parent: int | None) -> None:
    """Until Ctrl-C, or until the `parent` that started it has died; BenchError when a program ends for good."""
    while not stop.wait(0.5) and parent in (None, os.getppid()):
        bench.programs.check()


def describe(bench: Bench, seconds: float) -> None:
    """How to use it."""
    tools = bench.tools.folder
    say(f"\nReady after {seconds:.0f} s:  export KUBECONFIG={bench.control_plane.kubeconfig} PATH={tools}:$PATH")
    say(f"  Kubernetes   {bench.control_plane.server}   audit log {bench.control_plane.audit_log}")
    say(f"  Proxmox VE   {bench.proxmox.url}   (simulated; its control door: {bench.proxmox.url}/__sim__/world)")
    for worker in WORKERS:
        what = f"kubelet at {bench.workers[worker.name].address}" if worker.kubelet else "an object without kubelet"
        say(f"  {worker.name}     VM {worker.vmid} on {worker.host}, {what}")
    for name, programs in bench.workers.items():
        say(f"  CSI sockets  controller {bench.services.csi_socket}\n               {name} {programs.csi_socket}")
    say(f"  Logs         {bench.place.folder}/logs")
    say(f"Ctrl-C ends it (or: kill {os.getpid()}); `make kube` again begins anew.")


def say(text: str) -> None:
    """One line to the person at the terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
