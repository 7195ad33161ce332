"""csi-sanity against our controller and node service, and what its answers mean.

`known-failures.yaml` lists by name what the driver does not do yet; anything else that fails is a fault, and so is an
entry that passes. Must not decide what is skipped: the driver's capabilities do.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.kube.bench import Bench
from tests.kube.reports import Outcome, read_report
from tests.kube.worker import WorkerPrograms

KNOWN_FAILURES = Path(__file__).parent / "sanity-known-failures.yaml"
TIMEOUT_S = 600


def run_sanity(bench: Bench, worker: WorkerPrograms, parameters: Mapping[str, str], *, access: str) -> Outcome:
    """All specs with volumes of these StorageClass parameters; `access` is "mount" or "block"."""
    folder = bench.place.folder / "sanity"
    folder.mkdir(exist_ok=True)
    (folder / "parameters.yaml").write_text(yaml.safe_dump(dict(parameters)), encoding="utf-8")
    report = folder / f"{access}.xml"
    report.unlink(missing_ok=True)
    paths = worker.kubelet_dir / "sanity"
    paths.mkdir(exist_ok=True)
    done = subprocess.run(
        [
            str(bench.tools.path("csi-sanity")), f"--csi.endpoint=unix://{worker.csi_socket}",
            f"--csi.controllerendpoint=unix://{bench.services.csi_socket}",
            f"--csi.mountdir={paths}/mount", f"--csi.stagingdir={paths}/stage",
            f"--csi.testvolumeparameters={folder}/parameters.yaml", f"--csi.testvolumeaccesstype={access}",
            f"--csi.testvolumesize={1 << 30}", f"--csi.testvolumeexpandsize={2 << 30}",
            f"--csi.junitfile={report}",
        ],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    (bench.place.folder / "logs" / f"sanity-{access}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not report.exists():
        raise AssertionError(f"csi-sanity gave no report:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return read_report(report)


def known_failures() -> dict[str, str]:
    """Name of a spec and the reason why it fails today."""
    found: dict[str, str] = yaml.safe_load(KNOWN_FAILURES.read_text(encoding="utf-8")) or {}
    return found
