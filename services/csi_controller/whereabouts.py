"""Where the volume of a handle is, and which host to ask about it.

A handle names the host at the time of writing; what counts is how the storage is configured now. Must not change
anything, and must not conclude from a short list that something is gone.
"""

from dataclasses import dataclass

from appkit.errors import FailedPrecondition, Unavailable
from csi_controller.placement import unknown_zone
from csi_controller.regions import Regions
from csi_controller.storage_types import StorageType, storage_type
from csikit.handles import VolumeHandle
from pvekit.clusters import Region
from pvekit.errors import VolumeNotFound
from pvekit.models import StorageDefinition


@dataclass(frozen=True)
class Place:
    """One volume's surroundings. `definition` None: the token does not see the storage, or it was removed."""

    handle: VolumeHandle
    region: Region
    definition: StorageDefinition | None

    @classmethod
    def of(cls, regions: Regions, handle: VolumeHandle) -> "Place":
        """From the inventory, no request. Raises what `Regions.get` does."""
        region = regions.get(handle.region)
        return cls(handle, region, region.inventory.definition(handle.storage))

    @property
    def volid(self) -> str:
        """Proxmox VE's name of the volume."""
        return self.handle.volid

    @property
    def is_shared(self) -> bool:
        """Whether every host with the storage sees the same volume."""
        return self.definition.shared if self.definition is not None else not self.handle.zone

    @property
    def kind(self) -> StorageType:
        """Traits of the storage's type."""
        return storage_type(self.definition.type if self.definition is not None else "")

    @property
    def vm_hosts(self) -> frozenset[str] | None:
        """Hosts whose VMs can have the volume; None for all."""
        if not self.is_shared and self.handle.zone:
            return frozenset({self.handle.zone})
        return self.definition.nodes if self.definition is not None else None

    @property
    def holder_hosts(self) -> frozenset[str] | None:
        """Hosts whose VMs mean this volume when they name its volid; None for all.

        A VM on a host that a shared storage was withdrawn from may still have the volume open.
        """
        return frozenset({self.handle.zone}) if not self.is_shared and self.handle.zone else None

    def check_reach(self, host: str, vm: str) -> None:
        """Raises FailedPrecondition when a VM on `host` cannot have the volume; `vm` names it in the text."""
        allowed = self.vm_hosts
        if allowed is None or host in allowed:
            return
        if self.is_shared:
            raise FailedPrecondition(
                f"storage {self.handle.storage!r} is only on {', '.join(sorted(allowed))}, {vm} runs on {host}"
            )
        lives_on = ", ".join(sorted(allowed))
        raise FailedPrecondition(
            f"volume {self.volid} lives on {lives_on}, {vm} runs on {host}; local storage cannot follow a Pod to "
            f"another host: run the Pod on a node of zone {lives_on}, or move the volume"
        )

    async def find_host(self) -> str:
        """The host to send storage calls to. Costs requests only for a handle without zone on a local storage.

        Raises FailedPrecondition for a host that is no longer part of the cluster, Unavailable for offline ones,
        VolumeNotFound when every host was asked and none has the volume.
        """
        online = {node.name: node.online for node in self.region.inventory.nodes()}
        zone = self.handle.zone
        if self.is_shared:
            able = [host for host, up in online.items() if up and (self.definition is None or self.definition.on(host))]
            if not able:
                raise Unavailable(
                    f"no host of region {self.region.name!r} with storage {self.handle.storage!r} is online"
                )
            return zone if zone in able else able[0]
        if zone:
            if zone not in online:
                raise FailedPrecondition(f"volume {self.volid}: {unknown_zone(zone, self.region.name, online)}")
            if not online[zone]:
                raise Unavailable(f"host {zone}, where volume {self.volid} lives, is offline")
            return zone
        return await self._search(online)

    async def _search(self, online: dict[str, bool]) -> str:
        hosts = [host for host in online if self.definition is None or self.definition.on(host)]
        missing: VolumeNotFound | None = None
        for host in hosts:
            if not online[host]:
                continue
            try:
                await self.region.storage.info(host, self.volid)
            except VolumeNotFound as error:
                missing = error
            else:
                return host
        dark = [host for host in hosts if not online[host]]
        if missing is None or dark:
            raise Unavailable(
                f"volume {self.volid} may be on a host that is offline: {', '.join(dark) or 'none known'}"
            )
        raise missing
