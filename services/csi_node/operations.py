"""Running one verb on one volume to its end, whether or not the caller still waits.

kubelet gives up after two minutes and calls again. A mkfs or fsck that was killed then would never end, so work goes on
when its caller has gone, the volume stays taken meanwhile (the repeated call is answered "still running"), and the call
after that finds it done. Only the end of the process stops it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from appkit.errors import Unavailable
from appkit.logs import get_logger
from csikit.inflight import InFlight

T = TypeVar("T")

_log = get_logger(__name__)


class Operations:
    """The verbs that run now, at most one per volume."""

    def __init__(self) -> None:
        self._in_flight = InFlight()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self, volume_id: str, verb: str, work: Callable[[], Awaitable[T]], *, disk: str = "") -> T:
        """Do `work` holding the volume, and its disk (by WWN) where two names of one volume must not both work on it.

        Raises Pending when another verb holds one of them, Unavailable when the service stops meanwhile, and what
        `work` raises.
        """

        async def hold() -> T:
            with contextlib.ExitStack() as held:
                for key in filter(None, (volume_id, disk)):
                    held.enter_context(self._in_flight.hold(key, verb))
                return await work()

        task = asyncio.create_task(hold(), name=f"{verb} {volume_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Unavailable(f"{verb} was stopped because this service stops; call again") from None
            if not task.done():
                _log.warning("the caller has gone, the operation goes on")
                task.add_done_callback(_log_outcome)
            raise

    async def aclose(self, drain_s: float) -> None:
        """Wait for what runs, at most `drain_s` seconds, then cancel it: its commands are killed."""
        if not self._tasks:
            return
        _log.info("waiting for running operations", extra={"running": self._in_flight.running()})
        _, late = await asyncio.wait(self._tasks, timeout=drain_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def _log_outcome(task: "asyncio.Task[object]") -> None:
    if task.cancelled():
        _log.warning("%s was stopped", task.get_name())
    elif error := task.exception():
        _log.error("%s failed after its caller had gone: %s", task.get_name(), error)
    else:
        _log.info("%s is done, after its caller had gone", task.get_name())
