"""Time as a value that is passed in, so that tests can make it virtual.

Must not be bypassed: nothing else in the libraries asks the operating system for the time. Waiting always goes through
the running loop, so a loop with virtual time (looptime) makes every wait virtual too.
"""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The three things code may want to know of time."""

    def now(self) -> datetime:
        """Wall-clock time, aware, in UTC. For stamps that others read; never for measuring how long something took."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary origin. For ages, deadlines and durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...


class SystemClock:
    """The real clock. `monotonic` is the running loop's own, hence callable inside a running loop only."""

    def now(self) -> datetime:
        """See `Clock.now`."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See `Clock.monotonic`; raises RuntimeError outside a running loop."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)
