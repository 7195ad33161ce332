"""A Kubernetes node as the node service sees it: disks are plugged into it, volumes outlive the plugging."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from csi_node.app import build
from csi_node.host.exec import Completed, ProcessRunner
from csi_node.settings import NodeSettings
from tests.fakes.node_calls import MIB, NodeCalls, Volume
from tests.host.loops import Loop


class LoggingRunner(ProcessRunner):
    """The real runner, with a note of each command line."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []
        self.before: Callable[[list[str]], None] = lambda argv: None

    async def run(self, argv, **kwargs) -> Completed:  # type: ignore[no-untyped-def]
        self.lines.append(list(argv))
        self.before(list(argv))
        return await super().run(argv, **kwargs)

    def programs(self) -> list[str]:
        """Names of the programs run, in order; the list is emptied."""
        names = [line[0] for line in self.lines]
        self.lines.clear()
        return names


@dataclass
class Plugged:
    name: str
    volume: Volume
    loop: Loop


@dataclass
class Machine(NodeCalls):
    """`root` holds dev, sys, kubelet and the volumes' files."""

    root: Path
    runner: LoggingRunner = field(default_factory=LoggingRunner)
    plugged: list[Plugged] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in ("dev", "sys/block", "kubelet/pods", "kubelet/plugins", "volumes"):
            (self.root / folder).mkdir(parents=True)
        settings = NodeSettings(
            node_id="worker-11",
            kubelet_dir=self.root / "kubelet",
            dev_root=self.root / "dev",
            sys_root=self.root / "sys",
            device_timeout_s=0.6,
        )
        self.node = build(settings, env={}, runner=self.runner).servicer

    def volume(self, name: str, size_mib: int) -> Volume:
        file = self.root / "volumes" / f"{name}.raw"
        with file.open("wb") as raw:
            raw.truncate(size_mib * MIB)
        return Volume(f"cluster-1/pve1/local-lvm/vm-9999-{name}", file)

    def plug(self, volume: Volume, name: str) -> Plugged:
        loop = Loop(volume.file)
        os.mknod(self.root / "dev" / name, 0o600 | 0o060000, loop.device)
        entry = self.root / "sys" / "block" / name
        (entry / "device").mkdir(parents=True)
        (entry / "device" / "wwid").write_text(f"naa.{volume.wwn.removeprefix('0x')}\n")
        (entry / "device" / "rescan").write_text("")
        (entry / "size").write_text(f"{volume.file.stat().st_size // 512}\n")
        (entry / "ro").write_text("0\n")
        (entry / "dev").write_text(f"{os.major(loop.device)}:{os.minor(loop.device)}\n")
        plugged = Plugged(name, volume, loop)
        self.plugged.append(plugged)
        return plugged

    def unplug(self, plugged: Plugged) -> None:
        """Take the disk away, in use or not.

        A filesystem still mounted from it goes on with a file of its own, so that nothing it writes later reaches the
        volume: as with a disk that is gone.
        """
        entry = self.root / "sys" / "block" / plugged.name
        for path in sorted(entry.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        entry.rmdir()
        (self.root / "dev" / plugged.name).unlink()
        plugged.loop.flush()
        copy = plugged.volume.file.with_suffix(".copy")
        subprocess.run(["cp", "--sparse=always", plugged.volume.file, copy], check=True)
        copy.rename(plugged.volume.file)
        plugged.loop.close()
        self.plugged.remove(plugged)

    def grow(self, plugged: Plugged, size_mib: int) -> None:
        os.truncate(plugged.volume.file, size_mib * MIB)
        plugged.loop.reread_size()
        (self.root / "sys" / "block" / plugged.name / "size").write_text(f"{size_mib * MIB // 512}\n")

    def mounted(self) -> list[Path]:
        """Mount points under this machine's root, innermost last."""
        paths = [Path(line.split(" ")[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [path for path in paths if path.is_relative_to(self.root)]
