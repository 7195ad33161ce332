"""The demo's processes: started, watched, stopped; each with a log file of its own.

Must not know what a process does. A process that ends by itself while the demo runs is an error, reported with the end
of its log. Each runs in a session of its own, so that Ctrl-C reaches the demo alone, which stops the rest in order.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.demo.host_tools import SEARCH_PATH

TAIL_LINES = 25
STOP_S = 10.0


class DemoError(Exception):
    """Something is off; the text is for the person watching. `log` is the log of the process concerned, if one is."""

    def __init__(self, text: str, log: Path | None = None) -> None:
        super().__init__(text)
        self.log = log


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The end of a log file."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


@dataclass(frozen=True)
class Running:
    """One process of the demo."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session and group, too."""
        return self.process.pid


class Processes:
    """All processes of one run, in the order of their start."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: list[Running] = []

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running)

    async def start(self, name: str, *command: str, env: Mapping[str, str] | None = None) -> Running:
        """Starts `python -m ...` or a program; raises DemoError when it cannot be started."""
        log = self._log_dir / f"{name}.log"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PVECLOUD_", "KUBE"))},
            "PATH": SEARCH_PATH,
            "PYTHONUNBUFFERED": "1",
            # gRPC and HTTP must go to 127.0.0.1, whatever proxy the machine has.
            "NO_PROXY": "*",
            "no_proxy": "*",
            **(env or {}),
        }
        with log.open("ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise DemoError(f"{name} could not be started: {error}") from error
        running = Running(name, process, log)
        self._running.append(running)
        return running

    async def start_module(self, name: str, module: str, *arguments: str) -> Running:
        """Starts a module with this interpreter."""
        return await self.start(name, sys.executable, "-m", module, *arguments)

    def check(self) -> None:
        """Raises DemoError for the first process that has ended."""
        for running in self._running:
            if (status := running.process.returncode) is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                raise DemoError(f"{running.name} {how}", running.log)

    async def wait_until(self, ready: Callable[[], bool], what: str, running: Running, timeout_s: float) -> None:
        """Waits for `ready()`; raises DemoError when the process ends first or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready():
                    self.check()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise DemoError(f"{what}: not within {timeout_s:.0f} s", running.log) from None

    async def stop(self) -> list[str]:
        """Ends all, last started first, each with SIGTERM and at worst SIGKILL; what was not clean, one line each."""
        unclean: list[str] = []
        services = list(reversed(self._running))
        self._running = []
        for running in services:
            if running.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    running.process.send_signal(signal.SIGTERM)
            try:
                status = await asyncio.wait_for(running.process.wait(), STOP_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                await running.process.wait()
                unclean.append(f"{running.name} did not stop within {STOP_S:.0f} s of SIGTERM and was killed")
                continue
            if status != 0:
                unclean.append(f"{running.name} ended with status {status} after SIGTERM")
        return unclean
