"""The tests' own door to the API server: raw dicts by path, kubectl verbatim, and waiting.

As cluster administrator. Must not hide an error: what the API server refuses raises KubeRefused with its text.
"""

import os
import shlex
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from tests.kube.pki import Pair
from tests.kube.programs import BenchError

T = TypeVar("T")
Object = dict[str, Any]


class KubeRefused(Exception):
    """The API server's refusal."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class KubeApi:
    """Requests as administrator."""

    def __init__(self, server: str, ca_file: Path, user: Pair, kubectl: Path, kubeconfig: Path) -> None:
        tls = ssl.create_default_context(cafile=str(ca_file))
        tls.load_cert_chain(user.certificate, user.key)
        self._client = httpx.Client(base_url=server, verify=tls, timeout=30.0, trust_env=False)
        self._kubectl = kubectl
        self._kubeconfig = kubeconfig

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def is_ready(self) -> bool:
        """Whether the API server serves."""
        try:
            return self._client.get("/readyz").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def request(self, method: str, path: str, body: Object | None = None, **headers: str) -> Object:
        """The answer's document. Raises KubeRefused."""
        answer = self._client.request(method, path, json=body, headers=headers)
        if answer.is_error:
            raise KubeRefused(answer.status_code, answer.text)
        document: Object = answer.json()
        return document

    def get(self, path: str) -> Object:
        """Raises KubeRefused, also for what does not exist."""
        return self.request("GET", path)

    def find(self, path: str) -> Object | None:
        """None when it does not exist."""
        try:
            return self.get(path)
        except KubeRefused as refusal:
            if refusal.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        """The items of a collection."""
        items: list[Object] = self.get(path)["items"]
        return items

    def merge(self, path: str, change: Object) -> Object:
        """A merge patch."""
        return self.request("PATCH", path, change, **{"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Deletes; what is gone already is fine."""
        try:
            self.request("DELETE", path, None if grace_s is None else {"gracePeriodSeconds": grace_s})
        except KubeRefused as refusal:
            if refusal.status != httpx.codes.NOT_FOUND:
                raise

    def apply(self, objects: Iterable[Object], *, namespace: str = "") -> None:
        """`kubectl apply` of these objects, server-side."""
        text = yaml.safe_dump_all(objects, sort_keys=False)
        where = f" -n {namespace}" if namespace else ""
        self.kubectl(f"kubectl apply --server-side{where} -f -", stdin=text)

    def kubectl(self, line: str, *, stdin: str = "", namespace: str = "") -> str:
        """Runs a command line of a manual as it stands (it may be a pipe); its output. Raises AssertionError."""
        environment: Mapping[str, str] = os.environ | {
            "KUBECONFIG": str(self._kubeconfig),
            "PATH": f"{self._kubectl.parent}:{os.environ.get('PATH', '')}",
        }
        if namespace:
            line = line.replace("kubectl ", f"kubectl -n {shlex.quote(namespace)} ", 1)
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=stdin, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def wait(self, what: str, probe: Callable[[], T | None], timeout_s: float, *, every_s: float = 0.2) -> T:
        """The first true answer of `probe`; BenchError with `what` when there is none in time."""
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while not (found := probe()):
            if time.monotonic() > deadline:
                raise BenchError(f"{what}: not within {timeout_s:.0f} s\n{self.situation()}")
            pause.wait(every_s)
        return found

    def situation(self) -> str:
        """What a person would look at first: claims, Pods, attachments and recent events of all namespaces."""
        return self.kubectl(
            "kubectl get pvc,pod,volumeattachment -A -o wide; "
            "kubectl get events -A --sort-by=.lastTimestamp | tail -n 25"
        )


def documents(path: Path) -> list[Object]:
    """The objects of a manifest."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
