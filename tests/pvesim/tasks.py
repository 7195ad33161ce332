"""Background tasks: UPIDs, logs, ends. Must not know what a task does."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.pvesim.access import Identity
from tests.pvesim.clock import SimClock
from tests.pvesim.errors import ApiError
from tests.pvesim.faults import Action
from tests.pvesim.profile import Profile


@dataclass
class Task:
    """One worker: `exitstatus` None while it runs, then "OK", "WARNINGS: n" or the error's text."""

    upid: str
    node: str
    pid: int
    pstart: int
    starttime: int
    type: str
    id: str
    who: Identity
    log: list[str] = field(default_factory=list)
    warnings: int = 0
    exitstatus: str | None = None
    endtime: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    runner: asyncio.Task[None] | None = None
    # What a killed worker of this kind leaves as its exit status.
    killed_text: str = "unexpected status"
    # kill -9: nobody was left to clean up or to write how it ended.
    killed_hard: bool = False

    def print(self, line: str) -> None:
        """A line of the task's log."""
        self.log.append(line)

    @property
    def failed(self) -> bool:
        """Whether it ended, and not well (warnings are well)."""
        return self.exitstatus is not None and self.exitstatus != "OK" and not self.exitstatus.startswith("WARNINGS")


Body = Callable[[Task], Awaitable[None]]


class Tasks:
    """Starts tasks and remembers them."""

    def __init__(self, clock: SimClock, profile: Profile, rng: random.Random) -> None:
        self._clock = clock
        self._profile = profile
        self._rng = rng
        self._pid = 600
        self._running: set[asyncio.Task[None]] = set()
        self.by_upid: dict[str, Task] = {}

    def next_pid(self) -> int:
        """A process id not given out before."""
        self._pid += self._rng.randint(1, 9)
        return self._pid

    def start(
        self, node: str, kind: str, target: str, who: Identity, body: Body, *, fault: Action | None = None
    ) -> Task:
        """Fork a worker. Its body runs as a task of the loop; ApiError ends it with that text."""
        pid, now = self.next_pid(), self._clock.time()
        pstart = int(self._clock.monotonic() * 100) + 100_000
        upid = f"UPID:{node}:{pid:08X}:{pstart:08X}:{now:08X}:{kind}:{target}:{who.auth_id}:"
        task = Task(upid, node, pid, pstart, now, kind, target, who)
        self.by_upid[upid] = task
        runner = asyncio.create_task(self._run(task, body, fault), name=upid)
        task.runner = runner
        self._running.add(runner)
        runner.add_done_callback(self._running.discard)
        return task

    def remember(self, upid: str, who: Identity, log: list[str], exitstatus: str, endtime: int) -> Task:
        """A task that ended before this world began."""
        _, node, pid, pstart, starttime, kind, target, *_ = upid.split(":")
        task = Task(upid, node, int(pid, 16), int(pstart, 16), int(starttime, 16), kind, target, who, list(log))
        task.exitstatus, task.endtime = exitstatus, endtime
        task.done.set()
        self.by_upid[upid] = task
        self._pid = max(self._pid, task.pid)
        return task

    async def _run(self, task: Task, body: Body, fault: Action | None) -> None:
        try:
            await self._clock.sleep(self._profile.task_start_s)
            if fault is not None and not fault.after:
                raise ApiError(500, fault.text)
            await body(task)
            if fault is not None:
                raise ApiError(500, fault.text)
        except ApiError as error:
            self._end(task, error.task_text)
        except OSError as error:
            # The block back end could not; the storage layer's own words.
            self._end(task, str(error))
        except asyncio.CancelledError:
            self._end(task, task.killed_text)
            raise
        except Exception as error:
            self._end(task, f"simulator fault: {error!r}")
            raise
        else:
            self._end(task, f"WARNINGS: {task.warnings}" if task.warnings else "OK")

    def _end(self, task: Task, exitstatus: str) -> None:
        task.exitstatus = exitstatus
        task.endtime = self._clock.time()
        if task.killed_hard:
            task.exitstatus = "unexpected status"
        elif exitstatus == "OK":
            task.log.append("TASK OK")
        elif task.failed:
            task.log.append(f"TASK ERROR: {exitstatus}")
        else:
            task.log.append(f"TASK {exitstatus}")
        task.done.set()

    async def wait(self, task: Task, timeout_s: float) -> bool:
        """Whether it ended within that time."""
        try:
            async with self._clock.timeout(timeout_s):
                await task.done.wait()
        except TimeoutError:
            return False
        return True

    async def kill(self, task: Task, *, hard: bool = False) -> None:
        """Stop a worker; returns when it has ended. `hard` is kill -9: it cleans nothing up and writes no end."""
        task.killed_hard = hard
        if task.runner is not None and not task.runner.done():
            task.runner.cancel()
            await asyncio.wait({task.runner})

    async def settle(self) -> None:
        """Wait until no task runs (those that a task starts included)."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def aclose(self) -> None:
        """Kill what still runs."""
        for runner in list(self._running):
            runner.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
