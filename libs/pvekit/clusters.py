"""All Proxmox VE clusters of a process: the only place that builds their objects."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from appkit.clock import Clock
from appkit.errors import NotFound
from pvekit.client import PveClient
from pvekit.cluster import Cluster
from pvekit.drive_index import DriveIndex
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.metrics import PveMetrics
from pvekit.models import VmRef
from pvekit.quorum import Quorum
from pvekit.settings import CloudConfig, ClusterSettings
from pvekit.storage import Storage
from pvekit.tasks import Tasks
from pvekit.vm_config_writer import VmConfigWriters
from pvekit.vms import Vms

TransportFor: TypeAlias = Callable[[ClusterSettings], httpx.AsyncBaseTransport]
"""Replaces the network, for each cluster: tests."""


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
    """All configured regions, each with its own client, inventory and writers."""

    def __init__(self, regions: dict[str, Region], *, with_drives: bool) -> None:
        self._regions = regions
        self._with_drives = with_drives

    @classmethod
    def build(
        cls,
        config: CloudConfig,
        *,
        transport_for: TransportFor | None = None,
        clock: Clock,
        metrics: PveMetrics,
        user_agent: str = "pvecloud",
        storages: bool = True,
        drives: bool = True,
    ) -> "Clusters":
        """Objects of every region; no request. `storages` and `drives` False leave out what a service never asks
        for.
        """
        return cls(
            {
                settings.region: _region(
                    settings,
                    transport_for(settings) if transport_for is not None else None,
                    clock,
                    metrics,
                    user_agent,
                    storages,
                )
                for settings in config.clusters
            },
            with_drives=drives,
        )

    def get(self, region: str) -> Region:
        """One region; NotFound names the known ones."""
        found = self._regions.get(region)
        if found is None:
            raise NotFound(f"region {region!r} is not configured; known: {', '.join(sorted(self._regions))}")
        return found

    def regions(self) -> list[Region]:
        """All regions, by name."""
        return [region for _, region in sorted(self._regions.items())]

    def start(self) -> None:
        """Start every region's background work; needs a running loop."""
        for region in self.regions():
            region.inventory.start()
            if self._with_drives:
                region.drives.start()

    async def watch(self) -> None:
        """Wait for ever; raises BackgroundFailed when background work has ended by itself: nothing would be true any
        more.
        """
        watches = [each.watch() for region in self.regions() for each in (region.inventory, region.drives)]
        await asyncio.gather(*watches)

    async def aclose(self, drain_s: float | None = None) -> None:
        """Give writes under way `drain_s` seconds (None: as long as they take), end all else, close the connections."""
        await asyncio.gather(*(region.writers.aclose(drain_s) for region in self.regions()))
        for region in self.regions():
            await region.drives.aclose()
            await region.inventory.aclose()
            await region.client.aclose()

    def find_by_name(self, name: str) -> list[VmRef]:
        """QEMU guests of all regions with exactly this name, templates left out; from the inventories, no request."""
        return [
            VmRef(region.name, vm.node, vm.vmid, vm.name)
            for region in self.regions()
            for vm in region.inventory.vms()
            if vm.name == name and not vm.template
        ]


def _region(
    settings: ClusterSettings,
    transport: httpx.AsyncBaseTransport | None,
    clock: Clock,
    metrics: PveMetrics,
    user_agent: str,
    with_storages: bool,
) -> Region:
    name = settings.region
    client = PveClient(settings, transport=transport, clock=clock, metrics=metrics, user_agent=user_agent)
    tasks = Tasks(client, clock)
    cluster = Cluster(client)
    vms = Vms(client, tasks, metrics)

    def lock_key(node: str, storage_id: str) -> Hashable:
        definition = inventory.definition(storage_id)
        return storage_id if definition is None or definition.shared else (node, storage_id)

    storage = Storage(client, tasks, metrics, lock_key=lock_key)
    inventory = Inventory(name, cluster, storage, clock, with_storages=with_storages, ask_elsewhere=client.turn)
    locator = Locator(name, inventory, cluster, vms, Quorum(cluster, clock))
    drives = DriveIndex(name, inventory, locator, vms, cluster, clock)
    writers = VmConfigWriters(name, vms, tasks, locator, inventory, drives, clock, metrics)
    return Region(name, settings, client, tasks, cluster, vms, storage, inventory, locator, drives, writers)
