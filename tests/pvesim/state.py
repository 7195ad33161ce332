"""What exists in a simulated cluster: plain data, no rules.

Must not import a handler: the rules read and change these objects, never the other way round.
"""

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Literal

Power = Literal["stopped", "running"]
Darkness = Literal["", "no-pveproxy", "no-pvedaemon", "cut"]
# What QEMU finds when it opens an image: nothing wrong, no qcow2 inside, or a backing file that is gone.
Damage = Literal["", "not-qcow2", "no-backing"]


@dataclass
class Node:
    """One Proxmox VE host."""

    name: str
    node_id: int
    ip: str
    maxcpu: int = 8
    maxmem_bytes: int = 32 << 30
    maxdisk_bytes: int = 100 << 30
    dark: Darkness = ""
    dark_since: float = 0.0
    agents_slow_s: float = 0.0
    interfaces: list[str] = field(default_factory=lambda: ["eth0", "vmbr0"])
    dns: str = "192.0.2.53"
    workers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(3))


@dataclass
class Storage:
    """One entry of storage.cfg; `options` holds it as the API shows it (path, vgname, pool, ...)."""

    storage_id: str
    type: str
    content: list[str]
    shared: bool
    nodes: list[str]
    disabled: bool
    options: dict[str, str | int]
    size_bytes: int
    base_used_bytes: int
    unmounted: bool = False

    def is_on(self, node: str) -> bool:
        """Whether storage.cfg gives this storage to that node at all."""
        return not self.nodes or node in self.nodes


@dataclass
class Volume:
    """One disk image or logical volume. `node` is "" for a shared storage; `name` the part after the storage id."""

    storage: str
    node: str
    name: str
    owner: int
    format: str
    size_bytes: int
    ctime: int
    content: str = "images"
    parent: str | None = None
    used_bytes: int = 4096
    snapshots: dict[str, int] = field(default_factory=dict)
    damage: Damage = ""
    # (vmid, slot) of the running guests that have it open.
    holders: set[tuple[int, str]] = field(default_factory=set)

    @property
    def volid(self) -> str:
        """`storage:name`."""
        return f"{self.storage}:{self.name}"


@dataclass
class Plugged:
    """What the guest really has in a slot, whatever the configuration says."""

    key: str
    volid: str
    wwn: str | None
    serial: str | None


@dataclass
class GuestAgent:
    """What the QEMU guest agent would answer; `running` False is a guest without it."""

    running: bool = True
    hostname: str = ""
    interfaces: list[dict[str, object]] = field(default_factory=list)
    osinfo: dict[str, object] = field(default_factory=dict)


@dataclass
class Snapshot:
    """A named copy of a VM's configuration."""

    name: str
    conf: dict[str, str]
    snaptime: int
    description: str = ""
    parent: str = ""
    vmstate: bool = False


@dataclass
class Vm:
    """One virtual machine: current configuration, pending changes, snapshots, and what runs."""

    vmid: int
    node: str
    conf: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    pending_delete: dict[str, bool] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    parent: str = ""
    power: Power = "stopped"
    paused: bool = False
    guest_dead: bool = False
    started_at: float = 0.0
    qemu_pid: int = 0
    plugged: dict[str, Plugged] = field(default_factory=dict)
    # Slots whose controller the guest was asked to eject and has not yet.
    stuck_controllers: set[str] = field(default_factory=set)
    # Slots in which a plug failed silently; they take no disk until the VM is stopped.
    poisoned_slots: set[str] = field(default_factory=set)
    agent: GuestAgent = field(default_factory=GuestAgent)
    config_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Under the config lock: current, pending and deleted entries as they were saved last.
    stored: tuple[dict[str, str], dict[str, str], dict[str, bool]] | None = None
    pool: str = ""

    def copy_of_file(self) -> tuple[dict[str, str], dict[str, str], dict[str, bool]]:
        """The three sections that a config write changes."""
        return dict(self.conf), dict(self.pending), dict(self.pending_delete)

    @property
    def file(self) -> tuple[dict[str, str], dict[str, str], dict[str, bool]]:
        """(current, pending, pending deletes) as others read them: as saved last, not what a writer has in hand."""
        return self.stored or (self.conf, self.pending, self.pending_delete)

    @property
    def running(self) -> bool:
        """Whether a QEMU process exists (a paused guest runs)."""
        return self.power == "running"

    @property
    def is_template(self) -> bool:
        """Whether the configuration says template."""
        return self.conf.get("template") == "1"

    def serialized(self) -> str:
        """The configuration file's text, pending and snapshot sections included."""
        conf, pending, deletes = self.file
        lines = [f"{key}: {value}" for key, value in sorted(conf.items())]
        if self.parent:
            lines.append(f"parent: {self.parent}")
        if pending or deletes:
            lines.append("[PENDING]")
            if deletes:
                lines.append("delete: " + ",".join(("!" if f else "") + k for k, f in sorted(deletes.items())))
            lines.extend(f"{key}: {value}" for key, value in sorted(pending.items()))
        for name, snapshot in sorted(self.snapshots.items()):
            lines.append(f"[{name}]")
            lines.extend(f"{key}: {value}" for key, value in sorted(snapshot.conf.items()))
            lines.append(f"snaptime: {snapshot.snaptime}")
            lines.append(f"description: {snapshot.description}")
        return "\n".join(lines) + "\n"

    @property
    def digest(self) -> str:
        """SHA-1 of the file, as Proxmox VE answers it; a pending change alters it too."""
        return hashlib.sha1(self.serialized().encode(), usedforsecurity=False).hexdigest()
