"""`python -m tests.contract`: replay, print the figures and, for a family, the mismatches to work on."""

import argparse
import json
import sys
from pathlib import Path

from tests.contract import report
from tests.contract.differences import ARGUED, BY_CHANCE
from tests.contract.naming import AS_RECORDED, RENAMED
from tests.contract.replaying import replay


def main() -> int:
    """Exit status 0 when every goal is met."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    parser.add_argument("--family", default="", help="only families whose name holds this text")
    parser.add_argument("--verbose", action="store_true", help="every mismatch, not one of each kind")
    parser.add_argument("--renamed", action="store_true", help="replay with other VM ids, storage and host names")
    parser.add_argument("--mismatches", type=Path, help="also write all mismatches to this file")
    parser.add_argument("--raise-floors", action="store_true", help="raise floors.json to what was reached")
    args = parser.parse_args()
    outcomes = replay(RENAMED if args.renamed else AS_RECORDED)
    if args.mismatches:
        args.mismatches.write_text(report.mismatches_text(outcomes), encoding="utf-8")
    if args.raise_floors:
        floors = report.raised_floors(outcomes)
        report.FLOORS.write_text(json.dumps(floors, indent=1) + "\n", encoding="utf-8")
    if args.family or args.verbose:
        examples = len(outcomes) if args.verbose else 1
        sys.stdout.write(report.mismatches_text(outcomes, family=args.family, examples=examples))
    rows = report.rows(outcomes)
    for row in rows:
        if args.family.lower() in row["name"].lower():
            sys.stdout.write(
                f"{'ok ' if row['ok'] else 'LOW'} {row['value']:5.1f} % (goal {row['goal']:5.1f}) {row['name']}\n"
            )
    unargued = [o.recording.number for o in outcomes if not o.equal and o.recording.number not in {*ARGUED, *BY_CHANCE}]
    sys.stdout.write(f"differences that nobody argues (tests/contract/differences.py): {unargued or 'none'}\n")
    report.write_build_report(outcomes)
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
