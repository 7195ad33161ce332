"""Typed answers of Proxmox VE. Unknown fields are ignored, missing ones are None, numbers may come as text.

Pure: each `parse` takes one JSON object. Lists are filtered by permission on the server: a field that is None may only
mean that the token may not see it (recorded, 9.2: without Sys.Audit a node entry has no cpu and no mem).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pvekit.scalars import as_bool, as_float, as_int, as_str, as_words

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VmEntry:
    """A guest in /cluster/resources. `node` and `vmid` are right at once, the rest lags about 10 s.

    `status` keeps its last value for minutes after the host went dark, then becomes "unknown", and `name` None; join it
    with the host's own status. A VM created a moment ago has no name either.
    """

    vmid: int
    node: str
    type: str
    name: str | None
    status: str
    template: bool
    lock: str | None
    tags: tuple[str, ...]
    pool: str | None
    hastate: str | None
    max_cpu: int | None
    max_memory_bytes: int | None
    uptime_s: int | None

    @classmethod
    def parse(cls, entry: Entry) -> "VmEntry | None":
        """None for an entry without vmid or node."""
        vmid, node = as_int(entry.get("vmid")), as_str(entry.get("node"))
        if vmid is None or not node:
            return None
        return cls(
            vmid=vmid,
            node=node,
            type=as_str(entry.get("type")) or "qemu",
            name=as_str(entry.get("name")),
            status=as_str(entry.get("status")) or "unknown",
            template=as_bool(entry.get("template")),
            lock=as_str(entry.get("lock")),
            tags=as_words(entry.get("tags")),
            pool=as_str(entry.get("pool")),
            hastate=as_str(entry.get("hastate")),
            max_cpu=as_int(entry.get("maxcpu")),
            max_memory_bytes=as_int(entry.get("maxmem")),
            uptime_s=as_int(entry.get("uptime")),
        )


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A host in /cluster/resources or /nodes. `online` turns False about 8 s after the host fell silent."""

    name: str
    online: bool
    max_cpu: int | None
    max_memory_bytes: int | None

    @classmethod
    def parse(cls, entry: Entry) -> "NodeEntry | None":
        """None for an entry without a name."""
        name = as_str(entry.get("node"))
        if not name:
            return None
        return cls(
            name, as_str(entry.get("status")) == "online", as_int(entry.get("maxcpu")), as_int(entry.get("maxmem"))
        )


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A host in /cluster/status. `local` marks the one that answered."""

    name: str
    online: bool
    local: bool
    ip: str | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """GET /cluster/status. A host that stands alone has no cluster: `name` is None, and it is quorate by itself."""

    name: str | None
    quorate: bool
    nodes: tuple[ClusterNode, ...]

    @classmethod
    def parse(cls, entries: Iterable[Entry]) -> "ClusterStatus":
        """Of the answer's data; hosts in order of their names."""
        name, quorate, nodes = None, True, []
        for entry in entries:
            match as_str(entry.get("type")):
                case "cluster":
                    name, quorate = as_str(entry.get("name")), as_bool(entry.get("quorate"))
                case "node":
                    online, local = as_bool(entry.get("online")), as_bool(entry.get("local"))
                    nodes.append(ClusterNode(as_str(entry.get("name")) or "", online, local, as_str(entry.get("ip"))))
        return cls(name, quorate, tuple(sorted(nodes, key=lambda node: node.name)))


@dataclass(frozen=True, slots=True)
class StorageState:
    """One storage on one host. Sizes are None when the token may not see them (Datastore.Audit) or the host is silent.

    `shared` and `type` come from the definition when the resource list does not show the storage.
    """

    node: str
    storage: str
    type: str
    shared: bool
    content: tuple[str, ...]
    status: str
    total_bytes: int | None
    used_bytes: int | None

    @property
    def avail_bytes(self) -> int | None:
        """Free bytes as of the last status broadcast (about 10 s old); None when not known."""
        if self.total_bytes is None or self.used_bytes is None:
            return None
        return max(0, self.total_bytes - self.used_bytes)

    @classmethod
    def parse(cls, entry: Entry) -> "StorageState | None":
        """An entry of type storage of /cluster/resources; None without node or storage."""
        node, storage = as_str(entry.get("node")), as_str(entry.get("storage"))
        if not node or not storage:
            return None
        status = as_str(entry.get("status")) or "unknown"
        known = status == "available"
        return cls(
            node=node,
            storage=storage,
            type=as_str(entry.get("plugintype")) or "",
            shared=as_bool(entry.get("shared")),
            content=as_words(entry.get("content")),
            status=status,
            total_bytes=as_int(entry.get("maxdisk")) if known else None,
            used_bytes=as_int(entry.get("disk")) if known else None,
        )


@dataclass(frozen=True, slots=True)
class StorageDefinition:
    """An entry of GET /storage (needs Datastore.Audit or Datastore.AllocateSpace on the storage to be listed).

    `nodes` None means every host. `shared` is what the definition says, or what the type implies (ceph, NFS, …).
    """

    id: str
    type: str
    shared: bool
    nodes: frozenset[str] | None
    content: tuple[str, ...]
    enabled: bool
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, entry: Entry) -> "StorageDefinition | None":
        """None for an entry without a name."""
        name, kind = as_str(entry.get("storage")), as_str(entry.get("type")) or ""
        if not name:
            return None
        nodes = as_words(entry.get("nodes"))
        return cls(
            id=name,
            type=kind,
            shared=kind in SHARED_TYPES or as_bool(entry.get("shared")),
            nodes=frozenset(nodes) if nodes else None,
            content=as_words(entry.get("content")),
            enabled=not as_bool(entry.get("disable")),
            options=dict(entry),
        )

    def on(self, node: str) -> bool:
        """Whether the storage is meant for a host: enabled, and not restricted to others."""
        return self.enabled and (self.nodes is None or node in self.nodes)


SHARED_TYPES = frozenset(
    {
        "cephfs",
        "cifs",
        "glusterfs",
        "iscsi",
        "iscsidirect",
        "nfs",
        "pbs",
        "rbd",
        "zfs",
    }  # pve-storage: plugins' own flag
)


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """GET …/content/{volid}: size and format of one volume. `path` is the host's, for messages only."""

    volid: str
    size_bytes: int
    used_bytes: int | None
    format: str
    path: str


@dataclass(frozen=True, slots=True)
class VolumeEntry:
    """An entry of GET …/content. Filtered by the token's rights on each volume: a short list proves nothing."""

    volid: str
    size_bytes: int
    format: str
    owner_vmid: int | None
    created_at: float | None

    @classmethod
    def parse(cls, entry: Entry) -> "VolumeEntry | None":
        """None for an entry without a volid."""
        volid = as_str(entry.get("volid"))
        if not volid:
            return None
        return cls(
            volid=volid,
            size_bytes=as_int(entry.get("size"), 0) or 0,
            format=as_str(entry.get("format")) or "",
            owner_vmid=as_int(entry.get("vmid")),
            created_at=as_float(entry.get("ctime")),
        )


@dataclass(frozen=True, slots=True)
class VmStatus:
    """GET …/status/current. `qmp_status` tells a paused guest ("paused") from a running one; `status` does not."""

    status: str
    qmp_status: str
    lock: str | None
    name: str | None
    uptime_s: int
    ha_managed: bool

    @classmethod
    def parse(cls, entry: Entry) -> "VmStatus":
        """Of the answer's data."""
        ha = entry.get("ha")
        status = as_str(entry.get("status")) or "unknown"
        return cls(
            status=status,
            qmp_status=as_str(entry.get("qmpstatus")) or status,
            lock=as_str(entry.get("lock")),
            name=as_str(entry.get("name")),
            uptime_s=as_int(entry.get("uptime"), 0) or 0,
            ha_managed=isinstance(ha, Mapping) and as_bool(ha.get("managed")),
        )


@dataclass(frozen=True, slots=True)
class VmRef:
    """Where a VM is: enough to address it. `node` is current as of the inventory it came from."""

    region: str
    node: str
    vmid: int
    name: str | None
