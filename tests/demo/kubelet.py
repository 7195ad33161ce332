"""What a kubelet, and the sidecars beside the controller, add to the services: paths, requests, the Pod's own files.

Must not judge answers. Requests have the shape that csi-provisioner, csi-attacher, csi-resizer and the kubelet send.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from csikit.contract import DRIVER_NAME, TOPOLOGY_REGION, TOPOLOGY_ZONE
from csikit.pb import csi_pb2
from tests.demo.setting import REGION, StorageClass, Worker

Capability = csi_pb2.VolumeCapability


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim bound to a volume."""

    name: str
    storage_class: StorageClass
    volume_name: str
    volume_id: str = ""
    volume_context: tuple[tuple[str, str], ...] = ()

    @property
    def capability(self) -> csi_pb2.VolumeCapability:
        """ReadWriteOnce, mounted."""
        return Capability(
            mount=Capability.MountVolume(fs_type=self.storage_class.fs_type),
            access_mode=Capability.AccessMode(mode=Capability.AccessMode.SINGLE_NODE_WRITER),
        )


@dataclass(frozen=True)
class Mountpoints:
    """Where a kubelet puts one volume of one Pod."""

    kubelet_dir: Path
    volume_name: str
    volume_id: str
    pod_uid: str

    @property
    def staging(self) -> Path:
        """The global mount."""
        digest = hashlib.sha256(self.volume_id.encode()).hexdigest()
        return self.kubelet_dir / "plugins/kubernetes.io/csi" / DRIVER_NAME / digest / "globalmount"

    @property
    def target(self) -> Path:
        """The Pod's mount."""
        return self.kubelet_dir / "pods" / self.pod_uid / "volumes/kubernetes.io~csi" / self.volume_name / "mount"

    def prepare(self) -> None:
        """What the kubelet makes: the staging folder, and the parent of the target."""
        self.staging.mkdir(parents=True, exist_ok=True)
        self.target.parent.mkdir(parents=True, exist_ok=True)


def create_request(claim: Claim, size_bytes: int, workers: list[Worker]) -> csi_pb2.CreateVolumeRequest:
    """As csi-provisioner sends it after the scheduler chose `workers[0]`; the rest are the other possible Nodes."""
    segments = [{TOPOLOGY_REGION: REGION, TOPOLOGY_ZONE: zone} for zone in dict.fromkeys(w.host for w in workers)]
    topologies = [csi_pb2.Topology(segments=each) for each in segments]
    return csi_pb2.CreateVolumeRequest(
        name=claim.volume_name,
        capacity_range=csi_pb2.CapacityRange(required_bytes=size_bytes),
        volume_capabilities=[claim.capability],
        parameters=dict(claim.storage_class.parameters),
        accessibility_requirements=csi_pb2.TopologyRequirement(requisite=topologies, preferred=topologies),
    )


def write_file(folder: Path, size_bytes: int) -> str:
    """Writes random bytes as a Pod would; returns their checksum."""
    content = os.urandom(size_bytes)
    with (folder / "data.bin").open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def read_checksum(folder: Path) -> str:
    """Checksum of the file that `write_file` wrote."""
    return hashlib.sha256((folder / "data.bin").read_bytes()).hexdigest()


def capacity_bytes(folder: Path) -> int:
    """Size of the file system that is mounted there, as `df` shows it."""
    seen = os.statvfs(folder)
    return seen.f_blocks * seen.f_frsize
