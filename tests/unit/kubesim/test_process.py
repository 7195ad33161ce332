"""The fake API server as its own process, as the demo starts it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import yaml

STATE = """
apiVersion: v1
kind: Node
metadata: {name: worker-11}
---
apiVersion: v1
kind: List
items:
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: proxmox-data}}
- {apiVersion: v1, kind: Pod, metadata: {name: p}}
"""


def test_it_writes_where_it_listens_serves_the_state_and_ends_on_sigterm(tmp_path: Path) -> None:
    state, ready, kubeconfig = tmp_path / "state.yaml", tmp_path / "ready", tmp_path / "kubeconfig"
    state.write_text(STATE)
    command = [sys.executable, "-m", "tests.kubesim", "--ready-file", str(ready), "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen([*command, "--state", str(state)], stderr=subprocess.PIPE) as child:
        try:
            deadline = time.monotonic() + 10
            while not ready.exists():
                assert child.poll() is None
                assert time.monotonic() < deadline
                os.sched_yield()
            url = ready.read_text()
            assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == url
            with urllib.request.urlopen(f"{url}/__sim__/state") as answer:
                names = {(each["kind"], each["metadata"]["name"]) for each in json.load(answer)}
            assert names == {("Node", "worker-11"), ("StorageClass", "proxmox-data"), ("Pod", "p")}
            with urllib.request.urlopen(f"{url}/api/v1/namespaces/default/pods/p") as answer:
                assert json.load(answer)["kind"] == "Pod"
            child.send_signal(signal.SIGTERM)
            assert child.wait(10) == 0
        finally:
            child.kill()
            child.stderr and child.stderr.read()
