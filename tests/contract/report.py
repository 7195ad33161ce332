"""The figures of a replay: overall and by family, as rows and as text. Must not decide what equal means."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.contract.replaying import Outcome

OVERALL = "overall"
OVERALL_GOAL_PERCENT = 97.0
FLOORS = Path(__file__).parent / "floors.json"
_BUILD = Path(__file__).parents[2] / "build"


def percents(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Share of equal answers in percent, by family and for all of them."""
    total: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    for outcome in outcomes:
        for name in (OVERALL, outcome.family):
            total[name] += 1
            equal[name] += outcome.equal
    return {name: round(100.0 * equal[name] / total[name], 1) for name in sorted(total)}


def read_floors() -> dict[str, float]:
    """The committed ratchet: what each family reached once, in percent."""
    floors: dict[str, float] = json.loads(FLOORS.read_text(encoding="utf-8"))
    return floors


def rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """[{name, value, unit, goal, ok}], the overall figure first."""
    floors = read_floors()
    figures = percents(outcomes)
    result = []
    for name in [OVERALL, *(name for name in figures if name != OVERALL)]:
        goal = max(OVERALL_GOAL_PERCENT, floors.get(name, 0.0)) if name == OVERALL else floors.get(name, 0.0)
        result.append(
            {
                "name": f"contract: {name}",
                "value": figures[name],
                "unit": "%",
                "goal": goal,
                "ok": figures[name] >= goal,
            }
        )
    return result


def write_build_report(outcomes: list[Outcome]) -> Path:
    """build/contract.json; answers the path."""
    _BUILD.mkdir(exist_ok=True)
    path = _BUILD / "contract.json"
    path.write_text(json.dumps(rows(outcomes), indent=1) + "\n", encoding="utf-8")
    return path


def raised_floors(outcomes: list[Outcome]) -> dict[str, float]:
    """The floors, raised to what this replay reached; never lowered."""
    floors = read_floors() if FLOORS.exists() else {}
    return {name: max(floors.get(name, 0.0), figure) for name, figure in percents(outcomes).items()}


def mismatches_text(outcomes: list[Outcome], *, family: str = "", examples: int = 1) -> str:
    """Mismatches grouped by family, most first, each kind with its count and examples."""
    by_family: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if family.lower() in outcome.family.lower():
            by_family[outcome.family].append(outcome)
    lines = []
    for name, members in sorted(by_family.items(), key=lambda item: -sum(not o.equal for o in item[1])):
        unequal = [outcome for outcome in members if not outcome.equal]
        if not unequal:
            continue
        lines.append(f"== {name}: {len(members) - len(unequal)} of {len(members)} equal")
        kinds: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in unequal:
            kinds[outcome.unequal[0]].append(outcome)
        for kind, alike in sorted(kinds.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(alike)} x {kind}")
            for outcome in alike[:examples]:
                lines.extend(f"      {line}" for line in _example(outcome))
    return "\n".join(lines) + "\n"


def _example(outcome: Outcome) -> Iterable[str]:
    recording = outcome.recording
    params = " ".join(f"{key}={value}" for key, value in recording.params.items())
    yield f"#{recording.number} {recording.auth or '-'} {recording.method} {recording.path} {params}"[:300]
    yield f"  note: {recording.note}"
    yield f"  recorded:  {recording.status} {recording.reason} {json.dumps(recording.body)[:400]}"
    simulated = outcome.simulated
    yield f"  simulated: {simulated.status} {simulated.reason} {json.dumps(simulated.body)[:400]}"
    yield from (f"  - {line}" for line in outcome.unequal[1:8])
