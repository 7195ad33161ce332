"""A secret that a careless line does log is masked by the running process, wherever in the record it stands."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.packaging.conftest import Tree

SECRET = "5ec2e7a1-0b1d-4c1e-9f00-0123456789ab"
CLOUD_CONFIG = f"""
clusters:
  - url: https://127.0.0.1:1/api2/json
    token_id: kubernetes@pve!ccm
    token_secret: {SECRET}
    region: cluster-1
"""
UNWRAPS = "secret = settings.token_secret.get_secret_value() if settings.token_secret is not None else None\n"
PLANTED = """        import logging
        try:
            raise ValueError(f"cannot log in with {secret}")
        except ValueError:
            logging.getLogger("planted").exception("token %s", secret, extra={"header": f"PVEAPIToken={secret}"})
"""


def test_a_logged_secret_is_masked(copy_tree: Callable[[], Tree], tmp_path: Path) -> None:
    tree = copy_tree()
    tree.replace("libs/pvekit/auth.py", UNWRAPS, UNWRAPS + PLANTED)
    (tmp_path / "cloud.yaml").write_text(CLOUD_CONFIG, encoding="utf-8")
    log = tmp_path / "ccm.log"
    command = [sys.executable, "-m", "ccm", "--cloud-config", str(tmp_path / "cloud.yaml"), "--log-level", "debug"]
    command += ["--kube-server", "http://127.0.0.1:1", "--leader-elect=false"]
    paths = os.pathsep.join(str(tree.root / part) for part in ("libs", "services"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + 20
            while "planted" not in log.read_text(encoding="utf-8") and time.monotonic() < deadline:
                try:
                    process.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.terminate()
            process.wait(30)
    text = log.read_text(encoding="utf-8")
    assert "planted token" in text
    assert "cannot log in with" in text
    assert SECRET not in text
