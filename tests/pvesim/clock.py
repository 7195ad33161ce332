"""The world's clock: the running loop's time plus an epoch, so that looptime makes the whole world virtual.

Must not be bypassed: nothing else in the simulator asks the operating system for the time.
"""

import asyncio

DEFAULT_EPOCH = 1_800_000_000


class SimClock:
    """Seconds of the simulated world."""

    def __init__(self, epoch: int = DEFAULT_EPOCH) -> None:
        self._epoch = epoch
        self._origin: float | None = None
        self._skew_s = 0.0
        self._seen = 0.0

    def monotonic(self) -> float:
        """Seconds since the world began; needs a running loop once the world runs, 0 before."""
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:
            return self._skew_s
        if self._origin is None:
            self._origin = now
        elif now < self._seen:
            # Another loop (a test's virtual one after its fixtures' real one): go on from where we were.
            self._skew_s += self._seen - self._origin
            self._origin = now
        self._seen = now
        return now - self._origin + self._skew_s

    def time(self) -> int:
        """Unix time of the simulated world, in seconds."""
        return self._epoch + int(self.monotonic())

    def skip(self, seconds: float) -> None:
        """Let time pass at once, without waiting (the contract replay and demonstrations use it)."""
        self._skew_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait; zero and less do not even give way."""
        if seconds > 0:
            await asyncio.sleep(seconds)
