"""Running e2e.test of Kubernetes on the bench, and reading what it reports."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kube.bench import NO_KUBELET, Bench
from tests.kube.reports import Outcome, read_report

DRIVER = Path(__file__).parent / "driver.yaml"
PROGRAM = "e2e.test"
TIMEOUT_S = 3600


@dataclass
class Suite:
    """The External Storage specs of our driver."""

    bench: Bench

    def run(self, focus: str) -> Outcome:
        """The specs whose names match `focus`, a regular expression."""
        folder = self.bench.place.folder / "e2e"
        folder.mkdir(exist_ok=True)
        report = folder / "report.xml"
        report.unlink(missing_ok=True)
        pattern = rf"External.Storage.*csi\.proxmox\.sinextra\.dev.*{focus}" if focus else "External.Storage"
        log = self.bench.place.folder / "logs" / "e2e.log"
        environment: Mapping[str, str] = os.environ | {"KUBECONFIG": str(self.bench.control_plane.kubeconfig)}
        with log.open("wb") as output:
            subprocess.run(
                [
                    str(self.bench.tools.path(PROGRAM)), f"--kubeconfig={self.bench.control_plane.kubeconfig}",
                    "--provider=local", f"--storage.testdriver={DRIVER}", f"--ginkgo.focus={pattern}",
                    r"--ginkgo.skip=\[Disruptive\]", f"--ginkgo.junit-report={report}", "--ginkgo.v",
                    "--ginkgo.no-color", f"--non-blocking-taints={NO_KUBELET}",
                    f"--kubectl-path={self.bench.tools.path('kubectl')}",
                    "--dump-logs-on-failure=false", "--disable-log-dump", f"--report-dir={folder}",
                ],
                cwd=folder, env=environment, stdout=output, stderr=output, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        if not report.exists():
            tail = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))[-3000:]
            raise AssertionError(f"e2e.test gave no report:\n{tail}")
        return read_report(report)
