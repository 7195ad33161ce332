"""A Kubernetes node on a `FakeHost`: disks are plugged into it, volumes outlive the plugging."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from csi_node.app import build
from csi_node.own_node import Transport
from csi_node.settings import NodeSettings
from tests.fakes.node_calls import MIB, NodeCalls, Volume
from tests.fakes.runner import FakeHost


@dataclass
class Plugged:
    name: str
    volume: Volume


class FakeMachine(NodeCalls):
    """`root` is this machine's own folder; `shared` holds the volumes and what is in them."""

    def __init__(
        self,
        root: Path,
        shared: Path | None = None,
        *,
        device_timeout_s: float = 30.0,
        kube_transport: Transport | None = None,
    ) -> None:
        self.root = root
        self._shared = shared or root / "shared"
        for folder in ("dev", "sys/block", "kubelet/pods", "kubelet/plugins"):
            (root / folder).mkdir(parents=True)
        self._shared.mkdir(exist_ok=True)
        self._minor = 0
        self.host = FakeHost(
            dev_root=root / "dev", sys_root=root / "sys", state=root / "state", contents=self._shared / "contents"
        )
        self.settings = NodeSettings(
            node_id="worker-11",
            kubelet_dir=root / "kubelet",
            dev_root=root / "dev",
            sys_root=root / "sys",
            device_timeout_s=device_timeout_s,
            kube_server="http://kube.test",
        )
        self._kube_transport = kube_transport
        self.restart()

    def restart(self) -> None:
        """A new service process on the same machine: what is mounted stays, what was in memory is gone."""
        self.node = build(
            self.settings, env={}, runner=self.host, kernel=self.host, kube_transport=self._kube_transport
        ).servicer

    def volume(self, name: str, size_mib: int = 512) -> Volume:
        file = self._shared / f"{name}.raw"
        file.touch()
        os.truncate(file, size_mib * MIB)
        return Volume(f"cluster-1/pve1/local-lvm/vm-9999-{name}", file)

    def plug(
        self, volume: Volume, name: str, *, wwn: str = "", read_only: bool = False, state: str = "running"
    ) -> Plugged:
        self._minor += 16
        (self.root / "dev" / name).symlink_to(volume.file)
        entry = self.root / "sys" / "block" / name
        (entry / "device").mkdir(parents=True)
        (entry / "device" / "wwid").write_text(f"naa.{(wwn or volume.wwn).removeprefix('0x')}\n")
        (entry / "device" / "state").write_text(f"{state}\n")
        (entry / "device" / "rescan").write_text("")
        (entry / "size").write_text(f"{volume.file.stat().st_size // 512}\n")
        (entry / "ro").write_text(f"{int(read_only)}\n")
        (entry / "dev").write_text(f"8:{self._minor}\n")
        return Plugged(name, volume)

    def unplug(self, plugged: Plugged) -> None:
        shutil.rmtree(self.root / "sys" / "block" / plugged.name)
        (self.root / "dev" / plugged.name).unlink()

    def grow(self, plugged: Plugged, size_mib: int, *, seen: bool = True) -> None:
        os.truncate(plugged.volume.file, size_mib * MIB)
        if seen:
            self.show_size(plugged)

    def show_size(self, plugged: Plugged) -> None:
        """The guest's kernel notices how large the disk is."""
        size = plugged.volume.file.stat().st_size
        (self.root / "sys" / "block" / plugged.name / "size").write_text(f"{size // 512}\n")

    def mounted(self) -> list[Path]:
        lines = self.host.mountinfo().splitlines()[1:]
        return [Path(line.split(" ")[4]) for line in lines]
