"""Specs of Kubernetes' External Storage suite: one by default, others by FOCUS (a regular expression)."""

import os

from tests.e2e.suite import PROGRAM, Suite
from tests.kube.space import Space

# Online growth, on the class's own file system (xfs: ext4 cannot grow online on a host without CAP_SYS_RESOURCE).
DEFAULT_FOCUS = (
    r"Dynamic PV \(default fs\)\(allowExpansion\).*volume-expand should resize volume when PVC is edited while"
)


def test_external_storage(space: Space) -> None:
    space.bench.tools.build([PROGRAM])
    outcome = Suite(space.bench).run(os.environ.get("FOCUS") or DEFAULT_FOCUS)
    assert not outcome.failed
    assert outcome.passed
