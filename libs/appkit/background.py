"""Tasks that run beside the work: each has a name, and none may end unnoticed.

Must not restart anything: a poller that ended by an error it did not handle is a bug, and a process that looks alive
without it is worse than one that is restarted.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from appkit.logs import get_logger

_log = get_logger(__name__)


class BackgroundFailed(Exception):
    """A background task ended although nobody had asked it to. The cause is chained, if it ended by an error."""


class Background:
    """A set of named tasks for the length of an `async with`; leaving it cancels them and waits for their end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._closing = False

    def start(self, name: str, body: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `body` under `name`. Its end, by return or by error, is logged and makes `run_until` raise."""
        task = asyncio.get_running_loop().create_task(body, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait for `stop`; raises BackgroundFailed as soon as one of the tasks has ended."""
        stopping = asyncio.ensure_future(stop.wait())
        failed = self._failure()
        waiting: set[asyncio.Future[Any]] = {stopping, failed}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            stopping.cancel()

    async def aclose(self) -> None:
        """Cancel every task and wait until each has ended; an error on the way out is logged, not raised."""
        self._closing = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._failed is not None:
            self._failed.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _failure(self) -> asyncio.Future[None]:
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if self._closing:
            if error is not None:
                _log.error("background task failed while stopping", extra={"task": task.get_name()}, exc_info=error)
            return
        _log.critical("background task ended unexpectedly", extra={"task": task.get_name()}, exc_info=error)
        failed = self._failure()
        if not failed.done():
            failure = BackgroundFailed(f"background task {task.get_name()!r} ended unexpectedly")
            failure.__cause__ = error
            failed.set_exception(failure)
            failed.exception()  # fetched: a process that ends for another reason must not complain about it
