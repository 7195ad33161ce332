"""How long to wait between attempts; pure numbers.

Must not wait, count or decide what is worth another attempt: that is policy and belongs to the caller.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """An endless geometric row of delays: `first_s`, then each `factor` times the last, never above `max_s`.

    `jitter` is the share by which a delay may be shortened at random (0.2: down to 80 %), so that many waiters that
    failed together do not come back together and `max_s` stays a true upper bound. A seeded `rng` makes the row
    repeatable; None uses the `random` module's own, which a simulation may seed as a whole.
    """

    first_s: float
    factor: float
    max_s: float
    jitter: float = 0.2
    rng: random.Random | None = None

    def __post_init__(self) -> None:
        if self.first_s <= 0 or self.factor < 1 or self.max_s < self.first_s or not 0 <= self.jitter < 1:
            raise ValueError(f"back-off needs 0 < first_s <= max_s, factor >= 1 and 0 <= jitter < 1, got {self}")

    def delays(self) -> Iterator[float]:
        """A new row of delays in seconds, from the first."""
        draw = self.rng.random if self.rng is not None else random.random
        delay_s = self.first_s
        while True:
            yield delay_s * (1 - self.jitter * draw())
            delay_s = min(delay_s * self.factor, self.max_s)
