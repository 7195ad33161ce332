"""What a Ginkgo suite (csi-sanity, e2e.test) reports in its JUnit file."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Outcome:
    """Of one run: names of the specs."""

    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Counts first, then the names."""
        counts = {"passed": len(self.passed), "failed": len(self.failed), "skipped": len(self.skipped)}
        return {"counts": counts, "seconds": round(self.seconds, 1)} | {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
        }


def read_report(report: Path) -> Outcome:
    """From a JUnit file; set-up and tear-down nodes count only when they fail."""
    outcome = Outcome()
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own program's file
        name = case.get("name", "")
        outcome.seconds += float(case.get("time", "0"))
        failures = [found for kind in ("failure", "error") if (found := case.find(kind)) is not None]
        if failures:
            outcome.failed[name.removeprefix("[It] ")] = (failures[0].get("message") or failures[0].text or "").strip()
        elif not name.startswith("[It]"):
            continue
        elif case.find("skipped") is not None:
            outcome.skipped.append(name.removeprefix("[It] "))
        else:
            outcome.passed.append(name.removeprefix("[It] "))
    return outcome


def write_outcomes(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """A JSON document with one outcome a run."""
    path.parent.mkdir(exist_ok=True)
    document = {name: outcome.document() for name, outcome in outcomes.items()}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
