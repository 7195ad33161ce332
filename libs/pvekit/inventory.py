"""skeleton"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from appkit.clock import Clock
from pvekit.cluster import Cluster
from pvekit.models import NodeEntry, StorageDefinition, StorageState, VmEntry
from pvekit.storage import Storage


class Trust(StrEnum):
    """How far a snapshot can be believed."""

    NONE = "none"
    """Nothing was read yet."""
    PARTIAL = "partial"
    """A host is offline: its guests' status and its storages' sizes are old values."""
    FULL = "full"
    """Every host reports."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of /cluster/resources, and the latest of /storage. `generation` grows with each reading."""

    generation: int
    taken_at: datetime
    trust: Trust
    vms: Mapping[int, VmEntry]
    nodes: Mapping[str, NodeEntry]
    storages: Mapping[tuple[str, str], StorageState]
    definitions: Mapping[str, StorageDefinition]


class Inventory:
    """One poller per region: /cluster/resources every 10 s, /storage every 60 s, both in the background.

    All readers but `refresh` and `wait_ready` are synchronous and cost no request.
    """

    def __init__(
        self, region: str, cluster: Cluster, storage: Storage, clock: Clock, *, with_storages: bool = True
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to poll; needs a running loop."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop polling."""
        raise NotImplementedError

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait for the first reading; raises Unavailable with the last error's text."""
        raise NotImplementedError

    async def refresh(self) -> Snapshot:
        """A reading that began after this call; concurrent callers share one."""
        raise NotImplementedError

    @property
    def snapshot(self) -> Snapshot:
        """The latest reading."""
        raise NotImplementedError

    def age_s(self) -> float:
        """Seconds since the latest reading; infinity before the first."""
        raise NotImplementedError

    def vm(self, vmid: int) -> VmEntry | None:
        """A guest as listed; None is not absence (the list is filtered by rights): ask `Locator.find`."""
        raise NotImplementedError

    def vms(self) -> list[VmEntry]:
        """Every QEMU guest listed, templates included, by id; containers are left out."""
        raise NotImplementedError

    def nodes(self) -> list[NodeEntry]:
        """Every host, by name. This list is not filtered."""
        raise NotImplementedError

    def storages(self, node: str | None = None) -> list[StorageState]:
        """Storages of one host or of all, by host and name."""
        raise NotImplementedError

    def storage_on(self, node: str, storage: str) -> StorageState | None:
        """A storage on a host; None when it is not meant for that host or not visible. Sizes None without
        Datastore.Audit.
        """
        raise NotImplementedError

    def definition(self, storage: str) -> StorageDefinition | None:
        """A storage's definition; None when there is none or the token may not see it."""
        raise NotImplementedError

    def definitions(self) -> list[StorageDefinition]:
        """Every definition the token may see, by name."""
        raise NotImplementedError
