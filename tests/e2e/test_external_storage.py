"""Specs of Kubernetes' External Storage suite: one by default, others by FOCUS (a regular expression)."""

import os
from pathlib import Path

from tests.e2e.suite import PROGRAM, Suite
from tests.kube.reports import write_outcomes
from tests.kube.space import Space

REPORT = Path(__file__).parents[2] / "build" / "e2e.json"
# Online growth, on the class's own file system (xfs: ext4 cannot grow online on a host without CAP_SYS_RESOURCE).
DEFAULT_FOCUS = (
    r"Dynamic PV \(default fs\)\(allowExpansion\).*volume-expand should resize volume when PVC is edited while"
)


def test_external_storage(space: Space) -> None:
    space.bench.tools.build([PROGRAM])
    focus = os.environ.get("FOCUS") or DEFAULT_FOCUS
    outcome = Suite(space.bench).run(focus)
    outcome.skipped.clear()  # all that the focus leaves out
    write_outcomes(REPORT, {focus: outcome})
    assert not outcome.failed
    assert outcome.passed
