"""On which host and storage a new volume is made. Pure: values in, a decision or an error out.

Kubernetes names the hosts it can use (a topology); the first one that is configured for the storage wins, in the
caller's order, so that a repeated request comes to the same host. One that is offline is waited for and not passed
over: an earlier attempt may have made the volume there, and another host would get a second one. Without any topology
(no scheduler: csi-sanity, hand-made calls) the host with the most free space is taken, and the others, offline ones
included, are named as `rivals`, since an earlier attempt may have chosen one of them.

Must not judge free space for a given host: Kubernetes has the capacity objects, and thin pools may be overcommitted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appkit.errors import DriverError, InvalidRequest, ResourceExhausted, Unavailable
from pvekit.models import StorageDefinition


@dataclass(frozen=True, slots=True)
class Segment:
    """One place that the caller can use: a region, and a host as zone ("" when it does not say)."""

    region: str
    zone: str

    def __str__(self) -> str:
        return f"{self.region or '?'}/{self.zone or '*'}"


@dataclass(frozen=True, slots=True)
class RegionView:
    """What one region knows of one storage: hosts (name → online), the definition, and free bytes by host.

    `definition` None: not configured there, or not visible to the token. `loaded` False: nothing was read yet.
    """

    region: str
    hosts: Mapping[str, bool]
    definition: StorageDefinition | None
    avail_bytes: Mapping[str, int | None]
    loaded: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """The decision. `zone` is "" for shared storage; `host` is where the API call goes."""

    region: str
    zone: str
    host: str
    definition: StorageDefinition
    rivals: tuple[str, ...] = ()


def choose(name: str, storage: str, segments: Sequence[Segment], views: Mapping[str, RegionView]) -> Placement:
    """Where volume `name` is made; `segments` are the caller's, best first, empty for "anywhere".

    Raises InvalidRequest (unknown region, zone or storage), ResourceExhausted (the storage is not on these hosts) or
    Unavailable (the host that it would be on is offline, or its region not read yet).
    """
    if not segments:
        return _anywhere(name, storage, views)
    errors: list[DriverError] = []
    for segment in dict.fromkeys(segments):
        try:
            return _in_segment(storage, segment, views)
        except (InvalidRequest, ResourceExhausted) as error:
            errors.append(error)
    kind = ResourceExhausted if _any(errors, ResourceExhausted) else InvalidRequest
    raise kind("; ".join(dict.fromkeys(str(error) for error in errors)))


def _any(errors: Sequence[DriverError], kind: type[DriverError]) -> bool:
    return any(isinstance(error, kind) for error in errors)


def _in_segment(storage: str, segment: Segment, views: Mapping[str, RegionView]) -> Placement:
    view = _view(segment.region, views)
    definition = _usable(storage, view)
    if definition.shared:
        return _shared(view, definition, segment.zone)
    zone = segment.zone
    if not zone:
        raise InvalidRequest(
            f"storage {storage!r} is local to each host, but the topology names no zone (only region {view.region!r}): "
            "the nodes need the label topology.kubernetes.io/zone with the name of their Proxmox host"
        )
    if zone not in view.hosts:
        raise InvalidRequest(unknown_zone(zone, view.region, view.hosts))
    if not definition.on(zone):
        raise ResourceExhausted(f"storage {storage!r} is not available on host {zone} of region {view.region!r}")
    if not view.hosts[zone]:
        raise Unavailable(f"host {zone} of region {view.region!r} is offline")
    return Placement(view.region, zone, zone, definition)


def _shared(view: RegionView, definition: StorageDefinition, zone: str) -> Placement:
    # A zone that is no host (removed, mislabelled) does not matter here; one the storage is kept from does.
    if zone in view.hosts and not definition.on(zone):
        raise ResourceExhausted(f"shared storage {definition.id!r} is not available on host {zone}")
    online = [host for host, up in view.hosts.items() if up and definition.on(host)]
    if not online:
        raise Unavailable(f"no host of region {view.region!r} with storage {definition.id!r} is online")
    return Placement(view.region, "", zone if zone in online else min(online), definition)


def _anywhere(name: str, storage: str, views: Mapping[str, RegionView]) -> Placement:
    having = [view for view in views.values() if view.definition is not None or not view.loaded]
    if len(having) > 1 and all(view.loaded for view in having):
        regions = ", ".join(sorted(view.region for view in having))
        raise InvalidRequest(f"storage {storage!r} exists in several regions ({regions}); a topology must choose one")
    view = having[0] if having else next(iter(views.values()))
    definition = _usable(storage, view)
    if definition.shared:
        return _shared(view, definition, "")
    able = [host for host in view.hosts if definition.on(host)]
    online = [host for host in able if view.hosts[host]]
    if not online:
        raise Unavailable(f"no host of region {view.region!r} with storage {storage!r} is online")
    best = min(online, key=lambda host: (-(view.avail_bytes.get(host) or 0), _lot(name, host)))
    return Placement(view.region, best, best, definition, tuple(sorted(host for host in able if host != best)))


def _view(region: str, views: Mapping[str, RegionView]) -> RegionView:
    if not region and len(views) == 1:
        return next(iter(views.values()))
    if region in views:
        return views[region]
    known = ", ".join(sorted(views))
    if not region:
        raise InvalidRequest(f"the topology names no region and there are several ({known})")
    raise InvalidRequest(f"region {region!r} is not in the cloud config (known: {known})")


def _usable(storage: str, view: RegionView) -> StorageDefinition:
    if not view.loaded:
        raise Unavailable(f"the inventory of region {view.region!r} is not loaded yet")
    definition = view.definition
    if definition is None:
        raise InvalidRequest(
            f"storage {storage!r} is not visible in region {view.region!r}: it is not configured there, or the token "
            f"lacks Datastore.Audit (or Datastore.AllocateSpace) on /storage/{storage}"
        )
    if not definition.enabled:
        raise InvalidRequest(f"storage {storage!r} of region {view.region!r} is disabled")
    if "images" not in definition.content:
        held = ", ".join(definition.content) or "nothing"
        raise InvalidRequest(f"storage {storage!r} is not meant for disk images (its content: {held})")
    return definition


def unknown_zone(zone: str, region: str, hosts: Mapping[str, bool]) -> str:
    """The text for a zone that is no host; the usual cause is a label that holds the worker's own name."""
    return (
        f"zone {zone!r} is not a Proxmox host of region {region!r} (hosts: {', '.join(sorted(hosts))}); check the "
        "label topology.kubernetes.io/zone of the nodes"
    )


def _lot(name: str, host: str) -> str:
    return hashlib.sha256(f"{name}/{host}".encode()).hexdigest()
