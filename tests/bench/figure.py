"""One measured number and what it should be."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """`goal` is an upper bound; a figure that meets it is `ok`.

    Counts are the same on every machine, so a missed one is an error; times and memory are only written down.
    """

    name: str
    value: float
    unit: str
    goal: float
    ok: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.value <= self.goal)

    @property
    def is_count(self) -> bool:
        """Whether it counts requests."""
        return self.unit in ("requests", "config writes")

    def __str__(self) -> str:
        mark = "  " if self.ok else "! "
        return f"{mark}{self.name:<58} {self.value:>10.5g} {self.unit:<12} goal {self.goal:g}"


def write(figures: Sequence[Figure], path: Path) -> None:
    """The file that CI keeps: a list of {name, value, unit, goal, ok}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n", encoding="utf-8")
