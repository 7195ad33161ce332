"""The bench's processes: started, watched, restarted as a kubelet restarts containers, stopped.

Must not know what a program does. Each has a log file and a session of its own, so that Ctrl-C reaches the bench alone.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WATCH_S = 0.1
RESTART_S = (0.2, 2.0)
TAIL_LINES = 25


class BenchError(Exception):
    """The bench does not work; the text has the end of the log concerned."""


@dataclass
class Program:
    """One program: how it is started, and its present process."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    restart: bool
    process: subprocess.Popen[bytes]
    wanted: bool = True
    restarts: int = 0
    started_at: float = field(default_factory=time.monotonic)

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def tail(self) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-TAIL_LINES:]) or "(the log is empty)"


class Programs:
    """All programs of one bench."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._log_dir.mkdir(parents=True, exist_ok=True)
        self._programs: dict[str, Program] = {}
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="bench-programs", daemon=True)
        self._watcher.start()

    def __getitem__(self, name: str) -> Program:
        """Raises KeyError for a program that was never started."""
        return self._programs[name]

    def names(self) -> list[str]:
        """In the order of their first start."""
        return list(self._programs)

    def start(
        self, name: str, *command: str, restart: bool = False, environment: Mapping[str, str] | None = None
    ) -> Program:
        """Starts a program, or starts one again that was stopped; with `restart` it is kept alive."""
        with self._lock:
            log = self._log_dir / f"{name}.log"
            process = _spawn(command, environment or {}, log)
            program = Program(name, command, environment or {}, log, restart, process)
            self._programs[name] = program
            return program

    def start_again(self, name: str) -> Program:
        """The stopped program with its former command line."""
        former = self._programs[name]
        return self.start(name, *former.command, restart=former.restart, environment=former.environment)

    def kill(self, name: str) -> None:
        """SIGKILL; a program with `restart` comes back by itself."""
        self._programs[name].process.kill()

    def stop(self, *names: str, timeout_s: float = 30.0) -> None:
        """SIGTERM to all of them at once, at worst SIGKILL; none is restarted."""
        chosen = [self._programs[name] for name in names if name in self._programs]
        with self._lock:
            for program in chosen:
                program.wanted = False
                if program.running:
                    program.process.send_signal(signal.SIGTERM)
        for program in chosen:
            try:
                program.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                program.process.kill()
                program.process.wait()

    def close(self) -> None:
        """No more restarts. Does not stop anything by itself."""
        self._closing.set()
        self._watcher.join()

    def reap(self) -> None:
        """Waits for processes that somebody else has ended."""
        for program in self._programs.values():
            program.process.wait(10)

    def check(self) -> None:
        """Raises BenchError for a program that has ended and is not restarted."""
        for program in self._programs.values():
            if program.wanted and not program.restart and not program.running:
                raise BenchError(f"{program.name} ended with {program.process.returncode}:\n{program.tail()}")

    def wait_until(self, what: str, ready: Callable[[], object], timeout_s: float, *, log_of: str = "") -> None:
        """Waits until `ready()` is true; raises BenchError when it is not in time or a program has died."""
        wait_until(what, ready, timeout_s, meanwhile=self.check, log_of=self._programs.get(log_of))

    def _watch(self) -> None:
        while not self._closing.wait(WATCH_S):
            with self._lock:
                for program in self._programs.values():
                    if program.wanted and program.restart and not program.running and not self._closing.is_set():
                        self._revive(program)

    def _revive(self, program: Program) -> None:
        # Like a container: at once after a first end, slower when it keeps ending.
        lived_s = time.monotonic() - program.started_at
        if lived_s < RESTART_S[0 if program.restarts < 3 else 1]:
            return
        program.restarts += 1
        program.process = _spawn(program.command, program.environment, program.log)
        program.started_at = time.monotonic()


def wait_until(
    what: str,
    ready: Callable[[], object],
    timeout_s: float,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    log_of: Program | None = None,
    every_s: float = 0.1,
) -> None:
    """Waits until `ready()` is true; raises BenchError (with the end of a log) when it is not in time."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not ready():
        meanwhile()
        if time.monotonic() > deadline:
            tail = f"\n{log_of.name}:\n{log_of.tail()}" if log_of else ""
            raise BenchError(f"{what}: not within {timeout_s:.0f} s{tail}")
        pause.wait(every_s)


def _spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PVECLOUD_", "KUBE"))}
    # Everything is on this machine, whatever proxy it has.
    ours = {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "PYTHONUNBUFFERED": "1", "NO_PROXY": "*"}
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=inherited | ours | {"no_proxy": "*"} | dict(environment),
            start_new_session=True,
        )
