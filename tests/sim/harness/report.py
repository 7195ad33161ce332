"""The figures of a run: a page for people, `build/simulate.json` for programs."""

import json
from pathlib import Path
from typing import Any

from tests.sim.harness.run import Totals

FILE = Path("build/simulate.json")


def rows(totals: Totals) -> list[dict[str, Any]]:
    """[{name, value, unit, goal, ok}]."""
    succeeded = sum(count for (_, code), count in totals.calls.items() if code == "OK")
    return [
        _row("operations", totals.ops, "operations"),
        _row("broken invariants", len(totals.failed), "episodes", goal=0),
        _row("operations per minute", round(totals.ops_per_minute), "1/min"),
        _row("episodes", totals.episodes, "episodes"),
        _row("CSI calls", sum(totals.calls.values()), "calls"),
        _row("CSI calls that succeeded", succeeded, "calls"),
        _row("controller kills", totals.kills, "kills"),
        _row("Proxmox VE requests", totals.requests, "requests"),
        _row("simulated time", round(totals.virtual_s / 3600, 1), "h"),
    ]


def _row(name: str, value: float, unit: str, goal: float | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "ok": goal is None or value <= goal}


def write(totals: Totals) -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(rows(totals), indent=1) + "\n", encoding="utf-8")


def page(totals: Totals) -> str:
    """The same for people, with the outcomes of each RPC."""
    lines = [f"{row['name']:28} {row['value']:>12} {row['unit']}" for row in rows(totals)]
    verbs = sorted({verb for verb, _ in totals.calls})
    for verb in verbs:
        codes = sorted(((count, code) for (each, code), count in totals.calls.items() if each == verb), reverse=True)
        lines.append(f"{verb:28} " + ", ".join(f"{code} {count}" for count, code in codes))
    return "\n".join(lines)
