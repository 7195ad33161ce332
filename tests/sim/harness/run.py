"""A run of many episodes over the processor's cores, and what came of it. Must not know what an episode does.

Episodes have consecutive seeds, so that the one that failed is repeated alone by its own seed.
"""

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from tests.sim.harness.episode import Outcome, play
from tests.sim.harness.ops import Op, draw
from tests.sim.harness.plants import PLANTS
from tests.sim.harness.shrink import shrink

EPISODE_OPS = 400
_STEP = re.compile(r"^ *[\d.]+ +#(\d+) ")


@dataclass
class Totals:
    """Figures of a run; times in seconds, `virtual_s` inside, `took_s` outside."""

    ops: int = 0
    episodes: int = 0
    requests: int = 0
    kills: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: list[tuple[int, int, list[str]]] = field(default_factory=list)
    """(seed, operations, broken invariants) of each episode that failed."""

    @property
    def ops_per_minute(self) -> float:
        return self.ops / self.took_s * 60 if self.took_s else 0.0


def run(seed: int, ops: int, *, jobs: int = 0, plant: str = "", stop_at_failure: bool = True) -> Totals:
    """Play episodes of `EPISODE_OPS` operations until there were `ops`. `jobs` 0: one process a core."""
    totals, began_at = Totals(), time.monotonic()
    sizes = [EPISODE_OPS] * (ops // EPISODE_OPS) + [ops % EPISODE_OPS] * bool(ops % EPISODE_OPS)
    for (episode_seed, count), outcome in _outcomes(seed, sizes, jobs or os.cpu_count() or 1, plant):
        totals.ops += count
        totals.episodes += 1
        totals.requests += outcome.requests
        totals.kills += outcome.kills
        totals.virtual_s += outcome.virtual_s
        totals.calls.update(outcome.calls)
        if outcome.problems:
            totals.failed.append((episode_seed, count, outcome.problems))
            if stop_at_failure:
                break
    totals.took_s = time.monotonic() - began_at
    return totals


def _outcomes(seed: int, sizes: Sequence[int], jobs: int, plant: str) -> Iterator[tuple[tuple[int, int], Outcome]]:
    work = [(seed + number, count) for number, count in enumerate(sizes)]
    if jobs == 1 or len(work) == 1:
        yield from ((item, _play(plant, item)) for item in work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from zip(work, pool.map(partial(_play, plant), work), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


def _play(plant: str, item: tuple[int, int]) -> Outcome:
    seed, count = item
    outcome = play(seed, draw(seed, count), PLANTS.get(plant))
    if not outcome.problems:
        outcome.trace.clear()
    return outcome


def shortest(seed: int, count: int, plant: str = "", *, attempts: int = 250) -> tuple[list[Op], Outcome]:
    """The few operations of a failed episode that still break the same invariant, and what they come to."""
    ops = draw(seed, count)
    outcome = play(seed, ops, PLANTS.get(plant))
    wanted = _kind(outcome)
    reached = max(int(found[1]) for line in outcome.trace if (found := _STEP.match(line)))
    ops = list(itertools.takewhile(lambda op: op.number <= reached, ops))
    kept = shrink(ops, lambda some: _kind(play(seed, some, PLANTS.get(plant))) == wanted, attempts=attempts)
    return kept, play(seed, kept, PLANTS.get(plant))


def _kind(outcome: Outcome) -> str:
    """What was broken, without names and numbers."""
    return re.sub(r"[\d.]+|pvc-\S*|'[^']*'", "", outcome.problems[0])[:40] if outcome.problems else ""
