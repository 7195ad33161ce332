"""The demo's processes: started, watched, stopped; each with a log file of its own.

Must not know what a process does. A process that ends by itself while the demo runs is an error, reported with the end
of its log. Each runs in a session of its own, so that Ctrl-C reaches the demo alone, which stops the rest in order.
`Popen` rather than asyncio's own, which kills what it started when the loop ends: `KEEP=1` leaves them running.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.demo.host_tools import SEARCH_PATH

TAIL_LINES = 25
STOP_S = 10.0
POLL_S = 0.02


class DemoError(Exception):
    """Something is off; the text is for the person watching. `process` names the one whose log may tell more."""

    def __init__(self, text: str, process: str = "") -> None:
        super().__init__(text)
        self.process = process


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The end of a log file."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


@dataclass(frozen=True)
class Running:
    """One process of the demo."""

    name: str
    process: subprocess.Popen[bytes]


class Processes:
    """All processes of one run, in the order of their start."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: list[Running] = []

    @property
    def running(self) -> Sequence[Running]:
        """Those started and not stopped."""
        return tuple(self._running)

    def start(self, name: str, module: str, *arguments: str) -> Running:
        """Starts `python -m module` with this interpreter."""
        log = self._log_dir / f"{name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PVECLOUD_", "KUBE"))}
        # Everything is on 127.0.0.1, whatever proxy the machine has.
        ours = {"PATH": SEARCH_PATH, "PYTHONUNBUFFERED": "1", "NO_PROXY": "*", "no_proxy": "*"}
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited | ours,
                start_new_session=True,
            )
        running = Running(name, process)
        self._running.append(running)
        return running

    def check(self) -> None:
        """Raises DemoError for the first process that has ended."""
        for running in self._running:
            if (status := running.process.poll()) is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                raise DemoError(f"{running.name} {how}", running.name)

    async def wait_until(self, ready: Callable[[], bool], what: str, running: Running, timeout_s: float) -> None:
        """Waits for `ready()`; raises DemoError when a process ends first or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready():
                    self.check()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise DemoError(f"{what}: not within {timeout_s:.0f} s", running.name) from None

    async def stop(self, names: Sequence[str]) -> list[str]:
        """Ends those named, all at once, with SIGTERM and at worst SIGKILL; what was not clean, one line each."""
        chosen = [running for running in self._running if running.name in names]
        self._running = [running for running in self._running if running not in chosen]
        for running in chosen:
            running.process.send_signal(signal.SIGTERM)
        return [problem for running in chosen if (problem := await _ended(running))]


async def _ended(running: Running) -> str:
    try:
        await asyncio.to_thread(running.process.wait, STOP_S)
    except subprocess.TimeoutExpired:
        running.process.kill()
        running.process.wait()
        return f"{running.name} did not stop within {STOP_S:.0f} s of SIGTERM and was killed"
    status = running.process.returncode
    return f"{running.name} ended with status {status} after SIGTERM" if status else ""
