"""What a run leaves on the machine, found by the demo's own folder: mounts, loop devices, processes.

Must not trust the demo's bookkeeping: it reads the kernel's. It serves the final check, the clean-up after a failure,
and `make demo-stop` for runs that were left or killed.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.demo.host_tools import SEARCH_PATH

PREFIX = "pvecloud-demo-"
KILL_AFTER_S = 5.0


def folders() -> Iterator[Path]:
    """Folders of all of this user's runs that exist, present ones included."""
    for folder in sorted(base().glob(f"{PREFIX}*")):
        # Another user's run is that user's to end; root ends them all.
        if os.getuid() in {0, folder.stat().st_uid}:
            yield folder


def base() -> Path:
    """Where the folders are: short, since the path of a unix socket holds 107 characters."""
    return Path("/tmp")


def mounts(folder: Path) -> list[Path]:
    """Mount points below `folder`, innermost first."""
    found: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        target = Path(line.split()[4].replace("\\040", " "))
        if target.is_relative_to(folder):
            found.append(target)
    return found[::-1]


def loop_devices(folder: Path) -> list[Path]:
    """Loop devices whose file is, or was, below `folder`."""
    found: list[Path] = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            file = backing.read_text(encoding="utf-8").strip().removesuffix(" (deleted)")
        except OSError:
            continue
        if Path(file).is_relative_to(folder):
            found.append(Path("/dev") / backing.parent.parent.name)
    return found


def processes(folder: Path) -> list[int]:
    """Processes whose command line names `folder`, this one excluded."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                state = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and str(folder) in command:
                found.append(int(entry.name))
    return found


def describe(folder: Path) -> list[str]:
    """Everything left of the run in `folder`, one line each."""
    return [
        *(f"process {pid}" for pid in processes(folder)),
        *(f"mount {path}" for path in mounts(folder)),
        *(f"loop device {path}" for path in loop_devices(folder)),
    ]


def remove(folder: Path) -> list[str]:
    """Ends the processes, unmounts, detaches and deletes; what could not be removed, one line each."""
    pids = processes(folder)
    _signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + KILL_AFTER_S
    while (pids := processes(folder)) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    _signal(pids, signal.SIGKILL)
    for target in mounts(folder):
        _run("umount", str(target))
    for target in mounts(folder):
        _run("umount", "--lazy", str(target))
    for device in loop_devices(folder):
        _run("losetup", "--detach", str(device))
    left = describe(folder)
    if not mounts(folder):
        # Never across a mount: that would delete what is on the disk.
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            left.append(f"folder {folder}")
    return left


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _run(*command: str) -> None:
    subprocess.run(command, env={**os.environ, "PATH": SEARCH_PATH}, capture_output=True, timeout=30)
