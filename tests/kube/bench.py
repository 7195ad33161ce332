"""The whole bench: what starts in which order, when it is ready, how it is made new, how it ends.

The only module that knows all parts. A test's own objects are the test's; see conftest.py.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from csikit.contract import DRIVER_NAME
from tests.kube import services as service_names
from tests.kube.control_plane import ControlPlane, free_ports
from tests.kube.images import Registry, build_images
from tests.kube.kube_api import KubeApi, KubeRefused, documents
from tests.kube.needs import busybox
from tests.kube.place import Claimed, Place
from tests.kube.programs import Programs
from tests.kube.proxmox import NAME as PVESIM
from tests.kube.proxmox import Proxmox
from tests.kube.services import NODE_ACCOUNT, Services
from tests.kube.setting import REGION, WORKERS, Worker, machine_uuid, node_uuid, world
from tests.kube.toolchain import Toolchain
from tests.kube.worker import WorkerPrograms

MANIFESTS = Path(__file__).parent / "manifests"
EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = "/api/v1/nodes"
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NO_KUBELET = "bench/no-kubelet"
"""Taint of the Nodes that are objects only."""
READY_S = 90.0


@dataclass
class Bench:
    """`start`, then everything may be used; `close` leaves nothing on the machine."""

    claimed: Claimed
    tools: Toolchain
    say: Callable[[str], None] = lambda _text: None
    programs: Programs = field(init=False)
    control_plane: ControlPlane = field(init=False)
    proxmox: Proxmox = field(init=False)
    services: Services = field(init=False)
    workers: dict[str, WorkerPrograms] = field(init=False)
    _registry: Registry = field(init=False)

    def __post_init__(self) -> None:
        folder = self.place.folder
        self.programs = Programs(folder / "logs")
        self.control_plane = ControlPlane(folder, self.tools, self.programs)
        self.proxmox = Proxmox(folder, self.programs, free_ports(1)[0])
        self.services = Services(folder, self.tools, self.programs, self.control_plane, self.proxmox)
        self._registry = Registry(build_images(busybox(), self.tools.path("agnhost")))
        self.workers = {
            each.name: WorkerPrograms(
                each, self.place, self.tools, self.programs, self.control_plane, self.proxmox, self._registry.url
            )
            for each in WORKERS
            if each.kubelet
        }

    @property
    def place(self) -> Place:
        """Its share of the machine."""
        return self.claimed.place

    @property
    def api(self) -> KubeApi:
        """Requests as administrator."""
        return self.control_plane.api

    def start(self) -> None:
        """Starts everything and waits until Nodes are initialised and the driver is registered. BenchError if not."""
        started = time.monotonic()
        self.place.remember_forwarding()
        self._registry.start()
        self.control_plane.start()
        self.proxmox.start(world(machine_uuid()))
        for each in self.workers.values():
            each.start_containerd()
        self.proxmox.wait()
        self.control_plane.wait()
        self.control_plane.start_controllers()
        self.say(f"control plane after {time.monotonic() - started:.0f} s")
        for each in self.workers.values():
            each.start_kubelet()
        self._apply_manifests()
        self.services.start_ccm()
        self.services.start_controller()
        self._make_nodes()
        for each in self.workers.values():
            each.start_driver(self.services.kubeconfig(NODE_ACCOUNT))
        self.services.start_sidecars()
        self.services.start_snapshot_controller()
        self.wait_ready()
        self.say(f"everything after {time.monotonic() - started:.0f} s")

    def wait_ready(self) -> None:
        """Until Nodes are Ready and initialised, Pods may be made, the driver is registered and tells its capacity."""
        self.wait("Nodes are initialised and Ready", self._nodes_are_ready, READY_S, log_of=service_names.CCM)
        node_service = next(iter(self.workers.values())).name_of("csi-node")
        self.wait("the driver is registered", self._driver_is_registered, READY_S, log_of=node_service)
        self.wait("capacity is published", self._capacity_is_published, READY_S, log_of="csi-provisioner")
        # Without it every Pod is refused; the controller-manager makes it when it comes to it.
        self.wait("Pods have an account", lambda: self.api.find(DEFAULT_ACCOUNT), READY_S)

    def wait(self, what: str, ready: Callable[[], object], timeout_s: float, *, log_of: str = "") -> None:
        """Waits; raises BenchError with the end of a log."""
        self.programs.wait_until(what, ready, timeout_s, log_of=log_of)

    def capacities(self) -> list[dict[str, Any]]:
        """CSIStorageCapacity objects."""
        return self.api.list("/apis/storage.k8s.io/v1/csistoragecapacities")

    def close(self) -> list[str]:
        """Ends everything; what could not be removed from the machine, one line each."""
        self.programs.close()
        with suppress(AttributeError):
            self.api.close()
        self.proxmox.close()
        self._registry.close()
        left = self.claimed.release()
        self.programs.reap()
        return left

    def save_logs(self, target: Path) -> None:
        """Copies the logs to where they outlive the bench."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.place.folder / "logs", target)

    def new_world(self) -> None:
        """A new pvesim world under the same cluster, after the last one was left dirty: services start anew."""
        names = [service_names.CONTROLLER, service_names.CCM, *service_names.SIDECARS]
        drivers = [each.name_of("csi-node") for each in self.workers.values()]
        self.programs.stop(*names, *drivers)
        self.programs.stop(PVESIM)
        self._forget_volumes()
        self.place.take_off_disks(is_volume)
        shutil.rmtree(self.proxmox.state_dir, ignore_errors=True)
        self.proxmox.start(world(machine_uuid()))
        self.proxmox.wait()
        for name in (*names, *drivers):
            self.programs.start_again(name)
        self.wait_ready()

    def _forget_volumes(self) -> None:
        """Takes volumes and attachments out of Kubernetes without asking the driver."""
        for path in ("/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/persistentvolumes"):
            for item in self.api.list(path):
                with suppress(KubeRefused):
                    self.api.delete(f"{path}/{item['metadata']['name']}")
                    self.api.merge(f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}})

    def _apply_manifests(self) -> None:
        objects = [each for file in sorted(MANIFESTS.glob("*.yaml")) for each in documents(file)]
        objects += [each for file in sorted(self.tools.snapshot_crds.glob("*.yaml")) for each in documents(file)]
        objects += documents(EXAMPLES / "storage-classes.yaml")
        objects.sort(key=lambda each: each["kind"] != "Namespace")
        self.api.apply(objects)

    def _make_nodes(self) -> None:
        """Nodes without kubelet, registered as a kubelet with --cloud-provider=external does it."""
        for each in WORKERS:
            if not each.kubelet:
                self.make_node(each)

    def make_node(self, worker: Worker) -> None:
        """A Node without a kubelet, and what a kubelet would add once the driver is registered."""
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": worker.name,
                "labels": {"kubernetes.io/hostname": worker.name, "kubernetes.io/os": "linux"},
                "annotations": {"alpha.kubernetes.io/provided-node-ip": self.place.address(worker.vmid)},
            },
            "spec": {
                "taints": [
                    {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
                    {"key": NO_KUBELET, "value": "true", "effect": "NoSchedule"},
                ]
            },
        }
        node = self.api.request("POST", NODES, document)
        resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {
            "addresses": [
                {"type": "InternalIP", "address": self.place.address(worker.vmid)},
                {"type": "Hostname", "address": worker.name},
            ],
            "nodeInfo": {"systemUUID": node_uuid(worker)},
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        self.api.merge(f"{NODES}/{worker.name}/status", {"status": status})
        owner = {"apiVersion": "v1", "kind": "Node", "name": worker.name, "uid": node["metadata"]["uid"]}
        driver = {
            "name": DRIVER_NAME,
            "nodeID": worker.name,
            "topologyKeys": ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"],
            "allocatable": {"count": 24},
        }
        csi_node = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": worker.name, "ownerReferences": [owner]},
            "spec": {"drivers": [driver]},
        }
        self.api.request("POST", "/apis/storage.k8s.io/v1/csinodes", csi_node)

    def _nodes_are_ready(self) -> bool:
        nodes = {node["metadata"]["name"]: node for node in self.api.list(NODES)}
        return set(nodes) == {each.name for each in WORKERS} and all(is_ready(node) for node in nodes.values())

    def _capacity_is_published(self) -> bool:
        classes = [each for each in documents(EXAMPLES / "storage-classes.yaml") if each["kind"] == "StorageClass"]
        return len(self.capacities()) == len(classes) * len({each.host for each in WORKERS})

    def _driver_is_registered(self) -> bool:
        items = self.api.list("/apis/storage.k8s.io/v1/csinodes")
        registered = {
            item["metadata"]["name"]
            for item in items
            if any(driver["name"] == DRIVER_NAME for driver in item["spec"].get("drivers") or [])
        }
        return registered == {each.name for each in WORKERS}


def is_volume(mount: Path) -> bool:
    """Whether a mount point is one of our driver's: a volume staged, or published to a Pod."""
    return any(part in (DRIVER_NAME, "kubernetes.io~csi", "volumeDevices") for part in mount.parts)


def is_ready(node: dict[str, Any]) -> bool:
    """Ready, and initialised by a cloud-controller-manager."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions") or []}
    waiting = any(taint["key"] == UNINITIALIZED for taint in node["spec"].get("taints") or [])
    labels = node["metadata"].get("labels") or {}
    return conditions.get("Ready") == "True" and not waiting and labels.get("topology.kubernetes.io/region") == REGION
