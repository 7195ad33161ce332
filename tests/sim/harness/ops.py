"""The operations of a run: drawn from the seed before anything happens, so that leaving some out leaves the others.

An operation is plain data with stable targets (a claim's slot, a VM, a host by number), and does nothing where it makes
no sense. Pure; `acts` carries them out.
"""

import random
from dataclasses import dataclass

SLOTS = 12
VMS = 8
HOSTS = 3

# Kind and weight. What claims go through comes first, then what the programs suffer, then what others do.
WEIGHTS: tuple[tuple[str, float], ...] = (
    ("create", 10), ("attach", 20), ("detach", 7), ("move", 8), ("grow", 4), ("delete", 3),
    ("attach-rudely", 1.5), ("delete-rudely", 1), ("repeat", 4), ("give-up", 3), ("wait", 6),
    ("kill-controller", 2), ("kill-manager", 0.5), ("fault", 12), ("kube-fault", 0.5), ("kube-watches", 0.5),
    ("darken", 0.6), ("lighten", 5.0), ("no-quorum", 0.3), ("quorum", 4.0), ("take-right", 0.25), ("hide-vm", 0.4),
    ("give-rights", 6.0), ("lock-storage", 0.4), ("unlock-storage", 3.0),
    ("stop", 0.7), ("start", 2.0), ("pause", 0.7), ("resume", 1.4), ("destroy", 0.4), ("recreate", 1.2),
    ("migrate", 1.5), ("fail-over", 0.5), ("add-disk", 4), ("remove-disk", 2), ("race", 2),
    ("attach-by-hand", 0.5), ("detach-by-hand", 0.4), ("snapshot", 0.6), ("delete-snapshot", 1.0),
    ("roll-back", 0.2), ("backup", 0.8), ("hold-config", 0.6), ("describe", 2), ("hotplug-off", 0.3),
    ("hotplug-on", 0.9), ("tidy", 1.0),
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """`slot`, `vm`, `host` and the draws `x`, `y` (0 ≤ … < 1) are used as the kind wants; then time passes."""

    number: int
    kind: str
    slot: int
    vm: int
    host: int
    x: float
    y: float
    pause_s: float

    def __str__(self) -> str:
        return (
            f"#{self.number} {self.kind} slot={self.slot} vm={self.vm} host={self.host} x={self.x:.4f} y={self.y:.4f} "
            f"then {self.pause_s:.3f}s"
        )


def draw(seed: int, count: int) -> list[Op]:
    """`count` operations."""
    rng = random.Random(seed)  # noqa: S311 - a reproducible run, no secret
    kinds, weights = zip(*WEIGHTS, strict=True)
    return [
        Op(
            number,
            kind,
            rng.randrange(SLOTS),
            rng.randrange(VMS),
            rng.randrange(HOSTS),
            rng.random(),
            rng.random(),
            _pause_s(rng),
        )
        for number, kind in enumerate(rng.choices(kinds, weights, k=count))
    ]


def _pause_s(rng: random.Random) -> float:
    """Mostly short, so that things meet; now and then long enough for everything to end."""
    lot, share = rng.random(), rng.random()
    if lot < 0.3:
        return 0.0
    if lot < 0.65:
        return 0.3 * share
    if lot < 0.9:
        return 5 * share
    return 5 + 25 * share if lot < 0.98 else 30 + 90 * share
