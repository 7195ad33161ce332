"""One test's namespace, with what tests do in it again and again: apply, wait for a Pod, run in it, wait until gone.

Must not decide what is right; `check_clean` alone judges, at a test's end.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tests.demo import leftovers
from tests.kube.bench import Bench, is_volume
from tests.kube.kube_api import KubeApi, KubeRefused, Object
from tests.kube.programs import BenchError

POD_S = 60.0
GONE_S = 60.0
VOLUMES = "/api/v1/persistentvolumes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
ACCOUNTS = ("system:serviceaccount:csi-proxmox:", "system:serviceaccount:kube-system:proxmox-")

_numbers = itertools.count(1)


class Space:
    """A namespace of the bench."""

    def __init__(self, bench: Bench, test: str) -> None:
        self.bench = bench
        name = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_"))
        self.namespace = f"{name[:50].strip('-')}-{next(_numbers)}"
        self._audited = 0

    @property
    def api(self) -> KubeApi:
        """As administrator."""
        return self.bench.api

    def make(self) -> None:
        """Creates the namespace and waits for its default account."""
        self._audited = len(self.bench.control_plane.audit())
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.api.request("POST", "/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        self.api.wait("the namespace has its account", lambda: self.api.find(account), 20)

    def kubectl(self, line: str) -> str:
        """A manual's command line, in this namespace. Raises AssertionError with its complaint."""
        return self.api.kubectl(line, namespace=self.namespace)

    def apply(self, objects: Iterable[Object]) -> None:
        """Applies objects."""
        self.api.apply(objects, namespace=self.namespace)

    def path(self, resource: str, name: str = "") -> str:
        """Of pods, persistentvolumeclaims, events ... in this namespace."""
        return f"/api/v1/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def pod(self, name: str) -> Object | None:
        """None when it does not exist."""
        return self.api.find(self.path("pods", name))

    def wait_running(self, name: str, timeout_s: float = POD_S) -> Object:
        """The Pod, once its containers run."""
        return self.api.wait(f"Pod {name} runs", lambda: _if_running(self.pod(name)), timeout_s)

    def wait_bound(self, claim: str, timeout_s: float = POD_S) -> Object:
        """The PersistentVolume of a claim."""

        def bound() -> Object | None:
            found = self.api.get(self.path("persistentvolumeclaims", claim))
            if found["status"].get("phase") != "Bound":
                return None
            return self.api.get(f"{VOLUMES}/{found['spec']['volumeName']}")

        return self.api.wait(f"claim {claim} is bound", bound, timeout_s)

    def wait_event(self, name: str, reason: str, part: str, timeout_s: float = 30.0) -> str:
        """The message of an event about an object that holds `part`."""

        def told() -> str | None:
            for event in self.api.list(self.path("events")):
                if event["involvedObject"]["name"] == name and event["reason"] == reason and part in event["message"]:
                    return str(event["message"])
            return None

        return self.api.wait(f"event {reason} about {name} with {part!r}", told, timeout_s)

    def run(self, pod: str, script: str) -> str:
        """Output of a shell script inside the Pod."""
        return self.kubectl(f"kubectl exec {pod} -- sh -c '{script}'").strip()

    def delete_pod(self, name: str, *, grace_s: int = 1) -> None:
        """Deletes a Pod and waits until it is gone; busybox's shell would wait for its whole grace time."""
        self.api.delete(self.path("pods", name), grace_s=grace_s)
        self.api.wait(f"Pod {name} is gone", lambda: self.pod(name) is None, GONE_S)

    def wait_detached(self) -> None:
        """Until no volume is attached to any Node."""
        self.api.wait("all volumes are detached", lambda: not self.api.list(ATTACHMENTS), GONE_S)

    def remove(self) -> None:
        """Deletes Pods and claims and waits until their volumes are gone; the empty namespace goes by itself."""
        for resource in ("pods", "persistentvolumeclaims"):
            for item in self.api.list(self.path(resource)):
                self.api.delete(self.path(resource, item["metadata"]["name"]), grace_s=1)
        self.api.wait("Pods and claims are gone", self._is_empty, GONE_S)
        self.api.wait("the volumes are gone", lambda: not self.api.list(VOLUMES), GONE_S)
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")

    def _is_empty(self) -> bool:
        return not any(self.api.list(self.path(resource)) for resource in ("pods", "persistentvolumeclaims"))

    def check_clean(self) -> None:
        """Nothing of the test is left, anywhere, and no account was refused a request. AssertionError if not."""
        with suppress(BenchError):
            self.api.wait("nothing is left", lambda: not self.leftovers(), 20)
        assert not self.leftovers(), self.leftovers()
        assert not self.refusals(), self.refusals()

    def leftovers(self) -> list[str]:
        """What is there besides the empty bench, one line each."""
        folder = self.bench.place.folder
        proxmox = self.bench.proxmox
        return [
            *(f"PersistentVolume {each['metadata']['name']}" for each in self.api.list(VOLUMES)),
            *(f"VolumeAttachment {each['metadata']['name']}" for each in self.api.list(ATTACHMENTS)),
            *(f"volume {volid}" for volid in proxmox.volumes()),
            *(
                f"disk {key} of VM {vmid}: {drive}"
                for vmid in proxmox.world()["vms"]
                for key, drive in proxmox.disks(int(vmid)).items()
            ),
            *(f"mount {path}" for path in leftovers.mounts(folder) if is_volume(path)),
            *(f"loop device {path}" for path in leftovers.loop_devices(folder)),
        ]

    def refusals(self) -> list[str]:
        """Requests of our accounts that RBAC refused since `make`."""
        return [
            f"{entry['user']['username']} {entry['verb']} {entry['requestURI']}"
            for entry in self.bench.control_plane.audit()[self._audited :]
            if entry["user"]["username"].startswith(ACCOUNTS) and entry.get("responseStatus", {}).get("code") == 403
        ]

    def abandon(self) -> None:
        """After a failure: away with the namespace, a new world for the next test."""
        with suppress(KubeRefused, BenchError):
            for pod in self.api.list(self.path("pods")):
                self.api.delete(self.path("pods", pod["metadata"]["name"]), grace_s=1)
            self.api.delete(f"/api/v1/namespaces/{self.namespace}")
            # A container that still runs keeps its volume's disk open, whatever is unmounted outside.
            self.api.wait("the Pods are gone", lambda: not self.api.list(self.path("pods")), 20)
        self.bench.new_world()


def claim(name: str, size: str = "1Gi", *, storage_class: str = "proxmox-data", mode: str = "Filesystem") -> Object:
    """A ReadWriteOnce claim."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "volumeMode": mode,
        "resources": {"requests": {"storage": size}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def pod(name: str, claim_name: str = "", *, node: str = "", tolerate: bool = False) -> Object:
    """A Pod that waits, with a claim at /data."""
    container: dict[str, Any] = {"name": "app", "image": "busybox", "command": ["sh", "-c", "sleep 3600"]}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if claim_name:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if tolerate:
        spec["tolerations"] = [{"key": "bench/no-kubelet", "operator": "Exists"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _if_running(found: Mapping[str, Any] | None) -> Object | None:
    if found is None or found["status"].get("phase") != "Running":
        return None
    ready = all(status.get("ready") for status in found["status"].get("containerStatuses") or [{}])
    return dict(found) if ready else None
