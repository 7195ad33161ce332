"""`python -m tests.sim.harness --seed 1 --ops 20000`: exit status 1 when an invariant was broken.

A broken one is shown with the few operations that break it, and the command that repeats it.
"""

import argparse
import sys

from tests.sim.harness import report
from tests.sim.harness.plants import PLANTS
from tests.sim.harness.run import EPISODE_OPS, run, shortest

_SHOWN = 100
"""Lines of a trace; what waits for its end at the end repeats itself."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.harness", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first episode; the others count up from it")
    parser.add_argument("--ops", type=int, default=20_000, help=f"operations, in episodes of {EPISODE_OPS}")
    parser.add_argument("--jobs", type=int, default=0, help="processes; one a core unless given")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a fault to be found")
    parser.add_argument("--keep-going", action="store_true", help="play all episodes though one failed")
    parser.add_argument("--whole", action="store_true", help="do not shorten the trace of a failure")
    given = parser.parse_args()
    totals = run(given.seed, given.ops, jobs=given.jobs, plant=given.plant, stop_at_failure=not given.keep_going)
    for seed, count, problems in totals.failed:
        _explain(seed, count, problems, given.plant, shorten=not given.whole)
    report.write(totals)
    sys.stdout.write(report.page(totals) + "\n")
    return 1 if totals.failed else 0


def _explain(seed: int, count: int, problems: list[str], plant: str, *, shorten: bool) -> None:
    lines = [f"seed {seed}: an invariant is broken", *problems]
    if shorten:
        ops, outcome = shortest(seed, count, plant)
        lines.append(f"{len(ops)} of its {count} operations are enough:")
        lines += outcome.trace[:_SHOWN] + ["…"] * (len(outcome.trace) > _SHOWN) + outcome.problems
    planted = f" --plant {plant}" if plant else ""
    lines.append(f"again: python -m tests.sim.harness --seed {seed} --ops {count} --jobs 1{planted}")
    sys.stdout.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    sys.exit(main())
