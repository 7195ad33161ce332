"""The CSI conformance program against controller and node service, with loop devices as disks."""

from pathlib import Path

from tests.kube.reports import write_outcomes
from tests.kube.sanity import known_failures, run_sanity
from tests.kube.setting import SHARED_STORAGE
from tests.kube.space import Space

REPORT = Path(__file__).parents[2] / "build" / "sanity.json"


def test_csi_sanity(space: Space) -> None:
    bench = space.bench
    bench.tools.build(["csi-sanity"])
    worker = bench.workers["worker-3"]
    # Its requests name no host, so the volumes must be reachable from every one.
    parameters = {"storage": SHARED_STORAGE, "csi.storage.k8s.io/fstype": "xfs", "ssd": "true"}

    outcomes = {access: run_sanity(bench, worker, parameters, access=access) for access in ("mount", "block")}
    write_outcomes(REPORT, outcomes)

    failed = {name: text for outcome in outcomes.values() for name, text in outcome.failed.items()}
    known = known_failures()
    assert not {name: text for name, text in failed.items() if name not in known}
    assert not [name for name in known if name not in failed], "these pass now: take them off the list"
