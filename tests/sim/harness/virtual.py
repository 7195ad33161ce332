"""An event loop without waiting, and processes inside one operating-system process.

Time stands still while anything is ready and jumps to the next timer when nothing is, so that hours take seconds and a
run is the same every time. Every task belongs to a process (or to none: the world outside), as its creator does, so
that a process can be killed at any moment with all it was doing. Must not know what is simulated.
"""

import asyncio
import selectors
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

# So many rounds of the loop without time passing are no progress.
_STANDSTILL = 200_000
_EPOCH = datetime(2027, 1, 15, 8, tzinfo=UTC)


class Standstill(Exception):
    """Nothing will ever happen again, or something happens for ever without time passing."""


class _NoWaiting(selectors.SelectSelector):
    """Nothing from outside ever comes in; a wait is time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Standstill("nothing is left to wait for")
        if timeout > 0:
            self.now += timeout
            self._rounds = 0
        self._rounds += 1
        if self._rounds > _STANDSTILL:
            raise Standstill(f"time has stood still at {self.now:.3f} s for {_STANDSTILL} rounds of the loop")
        return []


class Process:
    """Tasks that die together. The tasks of the world outside belong to none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = 64

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Called by the loop for each new task."""
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._prune_at = max(64, 2 * len(self._tasks))

    async def kill(self) -> None:
        """End every task at the point where it waits; what they try on the way out must meet closed doors."""
        while left := [task for task in self._tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)


class OwnedTask(asyncio.Task[T]):
    """A task that knows its process."""

    process: Process | None = None


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 0 and only jumps. Errors that nobody handled are kept in `faults`."""

    def __init__(self) -> None:
        self._jumping = _NoWaiting()
        super().__init__(self._jumping)
        self.faults: list[str] = []
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(self._keep_fault)

    def time(self) -> float:
        return self._jumping.now

    def spawn(self, process: Process | None, body: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A new task of `process`, whoever asks."""
        task: OwnedTask[T] = OwnedTask(body, loop=self)
        task.process = process
        if process is not None:
            process.adopt(task)
        return task

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, body: Coroutine[Any, Any, T], **arguments: Any
    ) -> OwnedTask[T]:
        task: OwnedTask[T] = OwnedTask(body, loop=loop, **arguments)
        creator = asyncio.current_task(loop)
        if isinstance(creator, OwnedTask) and creator.process is not None:
            task.process = creator.process
            creator.process.adopt(task)
        return task

    def _keep_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = str(context["message"])
        if error is not None:
            text += f": {error!r} {''.join(traceback.format_tb(error.__traceback__)[-3:])}"
        self.faults.append(text)

    def finish(self) -> None:
        """End what is left and close."""
        with suppress(Exception):
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.close()


class VirtualClock:
    """`appkit.clock.Clock` of a virtual loop; the wall clock is virtual too."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
