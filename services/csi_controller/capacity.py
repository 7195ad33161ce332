"""Free space for new volumes, from the inventory: no request at all.

Must not answer 0 for what is only invisible: the scheduler would keep Pods away without a reason anybody could find.
"""

from dataclasses import dataclass

from appkit.errors import Denied, InvalidRequest
from csi_controller.placement import Segment, unknown_zone
from csi_controller.regions import Regions
from pvekit.clusters import Region
from pvekit.models import StorageDefinition


@dataclass(frozen=True, slots=True)
class Capacity:
    """Free bytes in all, and the largest single volume they can hold."""

    available_bytes: int
    largest_bytes: int


class Capacities:
    """Answers for every region."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions

    def get(self, storage: str, segment: Segment | None) -> Capacity:
        """Free space of `storage` ("": of all storages for disk images) in one segment (None: everywhere).

        Raises InvalidRequest (unknown region, zone, storage), Denied (Datastore.Audit missing), Unavailable.
        """
        pools: list[int] = []
        for region in self._served(segment):
            zone = segment.zone if segment is not None else ""
            pools += _pools(region, storage, zone)
        return Capacity(sum(pools), max(pools, default=0))

    def _served(self, segment: Segment | None) -> list[Region]:
        regions = self._regions.all()
        if segment is None or not segment.region:
            return [self._regions.get(region.name) for region in regions]
        if segment.region not in {region.name for region in regions}:
            known = ", ".join(region.name for region in regions)
            raise InvalidRequest(f"region {segment.region!r} is not in the cloud config (known: {known})")
        return [self._regions.get(segment.region)]


def _pools(region: Region, storage: str, zone: str) -> list[int]:
    """Free bytes of each pool: one a host for local storage, one in all for shared."""
    hosts = {node.name: node.online for node in region.inventory.nodes()}
    definitions = _definitions(region, storage)
    if zone and zone not in hosts and not all(definition.shared for definition in definitions):
        raise InvalidRequest(unknown_zone(zone, region.name, hosts))
    found: list[int] = []
    for definition in definitions:
        able = [host for host, up in hosts.items() if up and definition.on(host)]
        if definition.shared:
            chosen = able[:1] if zone not in hosts or definition.on(zone) else []
        else:
            chosen = [host for host in able if zone in ("", host)]
        found += [_available(region, host, definition.id) for host in chosen]
    return found


def _definitions(region: Region, storage: str) -> list[StorageDefinition]:
    if not storage:
        return [each for each in region.inventory.definitions() if each.enabled and "images" in each.content]
    definition = region.inventory.definition(storage)
    if definition is None:
        raise InvalidRequest(
            f"storage {storage!r} is not visible in region {region.name!r}: it is not configured there, or the token "
            f"lacks Datastore.Audit on /storage/{storage}"
        )
    return [definition]


def _available(region: Region, host: str, storage: str) -> int:
    state = region.inventory.storage_on(host, storage)
    if state is None or state.avail_bytes is None:
        raise Denied(
            f"the free space of storage {storage!r} on host {host} is not known: the token lacks Datastore.Audit on "
            f"/storage/{storage}, or the storage is not active there",
            privilege="Datastore.Audit",
            path=f"/storage/{storage}",
        )
    return state.avail_bytes
