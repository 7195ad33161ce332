"""skeleton"""

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from appkit.clock import Clock
from pvekit.client import PveClient
from pvekit.cluster import Cluster
from pvekit.drive_index import DriveIndex
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.metrics import PveMetrics
from pvekit.models import VmRef
from pvekit.presence import Presence
from pvekit.settings import CloudConfig, ClusterSettings
from pvekit.storage import Storage
from pvekit.tasks import Tasks
from pvekit.vm_config_writer import VmConfigWriters
from pvekit.vms import Vms


@dataclass(frozen=True)
class Region:
    """Everything about one Proxmox VE cluster."""

    name: str
    settings: ClusterSettings
    client: PveClient
    tasks: Tasks
    cluster: Cluster
    vms: Vms
    storage: Storage
    inventory: Inventory
    locator: Locator
    drives: DriveIndex
    writers: VmConfigWriters


class Clusters:
    """All configured regions."""

    @classmethod
    def build(
        cls,
        config: CloudConfig,
        *,
        transport_for: Callable[[ClusterSettings], httpx.AsyncBaseTransport] | None = None,
        clock: Clock,
        metrics: PveMetrics,
        user_agent: str = "pvecloud",
        storages: bool = True,
        drives: bool = True,
    ) -> "Clusters":
        """Objects of every region; no request. `storages` and `drives` False leave out what a service never asks
        for.
        """
        raise NotImplementedError

    def get(self, region: str) -> Region:
        """One region; NotFound names the known ones."""
        raise NotImplementedError

    def regions(self) -> list[Region]:
        """All regions, by name."""
        raise NotImplementedError

    def start(self) -> None:
        """Start every region's background work."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop it and close the connections."""
        raise NotImplementedError

    def find_by_name(self, name: str) -> list[VmRef]:
        """QEMU guests of all regions with exactly this name, templates excluded; from the inventories, no request."""
        raise NotImplementedError

    async def find_by_uuid(self, uuid: str, *, name: str | None = None) -> Presence[VmRef]:
        """The VM with an SMBIOS uuid, those of that `name` first. Never Absent: lists are filtered by rights."""
        raise NotImplementedError
