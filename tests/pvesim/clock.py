"""The world's clock: the running loop's time plus an epoch, so that looptime makes the whole world virtual.

Virtual with looptime, real with any other loop, scaled with `scale`: a world that lives ten times as fast lets its
clients see every wait shortened to a tenth. Must not be bypassed: nothing else in the simulator asks the operating
system for the time, or waits.
"""

import asyncio

DEFAULT_EPOCH = 1_800_000_000


class SimClock:
    """Seconds of the simulated world."""

    def __init__(self, epoch: int = DEFAULT_EPOCH, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"the clock's scale must be above 0, not {scale}")
        self.epoch = epoch
        self._scale = scale
        self._origin: float | None = None
        self._skew_s = 0.0
        self._seen = 0.0

    def monotonic(self) -> float:
        """Seconds since the world began; needs a running loop once the world runs, 0 before."""
        try:
            now = asyncio.get_running_loop().time() * self._scale
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
        return self.epoch + int(self.monotonic())

    def skip(self, seconds: float) -> None:
        """Let time pass at once, without waiting (the contract replay and demonstrations use it)."""
        self._skew_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait; zero and less do not even give way."""
        if seconds > 0:
            await asyncio.sleep(seconds / self._scale)

    def timeout(self, seconds: float) -> asyncio.Timeout:
        """A context manager that raises TimeoutError after so many of the world's seconds."""
        return asyncio.timeout(seconds / self._scale)

    def real_s(self, seconds: float) -> float:
        """How long the loop waits for so many of the world's seconds."""
        return seconds / self._scale
