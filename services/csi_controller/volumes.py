"""The life of a volume on its storage: create, find out, delete.

Owner of "same name, same content": a repeated CreateVolume finds the volume of the first by its name and compares it.
Must not touch a VM, and deletes nothing but volumes of the driver's own placeholder id to which nothing refers.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from appkit.errors import AlreadyExists, FailedPrecondition, InvalidRequest, OutOfRange, Pending, Unavailable
from appkit.logs import get_logger
from csi_controller import guard, names
from csi_controller.parameters import VolumeParameters
from csi_controller.placement import Placement, RegionView, Segment, choose
from csi_controller.regions import Regions
from csi_controller.sizes import SizeRange, smallest_size
from csi_controller.storage_types import QCOW2, RAW, StorageType, storage_type
from csi_controller.whereabouts import Place
from csikit.handles import VolumeHandle
from pvekit.clusters import Region
from pvekit.errors import (
    NoSpace,
    PveError,
    PveUnknownOutcome,
    ServerFailure,
    TaskFailed,
    TaskUnknown,
    VolumeExists,
    VolumeNotFound,
)
from pvekit.models import VolumeInfo

_log = get_logger(__name__)

# Ends of an allocation after which there may be a volume. Third-party plugins say in words of their own that a name is
# taken, so an unknown refusal is one of them.
_LOOK_FIRST = (VolumeExists, NoSpace, PveUnknownOutcome, ServerFailure)
# Ends of a deletion that do not say whether the volume is still there.
_UNCLEAR = (PveUnknownOutcome, TaskFailed, TaskUnknown, ServerFailure)


@dataclass(frozen=True, slots=True)
class NewVolume:
    """A validated request: `segments` best first, empty for anywhere; `fs_type` "" for raw block."""

    name: str
    size: SizeRange
    parameters: VolumeParameters
    segments: tuple[Segment, ...]
    fs_type: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Where and as what the volume will be made; decided without a request."""

    handle: VolumeHandle
    placement: Placement
    kind: StorageType
    file_name: str
    image_format: str
    size: SizeRange
    size_bytes: int
    parameters: VolumeParameters


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that was seen. `zones` lists the hosts that can have it; None for all of the region."""

    handle: VolumeHandle
    size_bytes: int
    zones: tuple[str, ...] | None
    context: Mapping[str, str]


class Volumes:
    """Volumes of every region, filed under `owner_vmid`, an id that belongs to no VM."""

    def __init__(self, regions: Regions, owner_vmid: int) -> None:
        self._regions = regions
        self._owner_vmid = owner_vmid

    def plan(self, new: NewVolume) -> Plan:
        """Decide placement, name, format and size. No request. Raises InvalidRequest, OutOfRange, ResourceExhausted,
        Unavailable.
        """
        parameters = new.parameters
        if parameters.replicated:
            raise InvalidRequest("parameters: 'replicate' (ZFS replication) is not supported by this release")
        views = {region.name: self._view(region, parameters.storage) for region in self._regions.all()}
        placement = choose(new.name, parameters.storage, new.segments, views)
        kind = storage_type(placement.definition.type)
        image_format = _format(kind, parameters.storage_format, placement)
        size_bytes = smallest_size(new.size, step_bytes=kind.step_bytes, fs_type=new.fs_type)
        disk = names.disk_name(kind, self._owner_vmid, new.name, image_format)
        return Plan(
            handle=VolumeHandle(placement.region, placement.zone, parameters.storage, disk),
            placement=placement,
            kind=kind,
            file_name=names.file_name(kind, self._owner_vmid, new.name, image_format),
            image_format=image_format,
            size=new.size,
            size_bytes=size_bytes,
            parameters=parameters,
        )

    async def create(self, plan: Plan) -> Volume:
        """Make the volume, or find it made: one request when it is new, two when it exists.

        Raises AlreadyExists when a volume of this name has another size or format; ResourceExhausted only after it was
        seen that nothing was left behind.
        """
        rival = await self._find_rival(plan)
        if rival is not None:
            return rival
        region = self._regions.get(plan.placement.region)
        try:
            volid = await region.storage.allocate(
                plan.placement.host,
                plan.handle.storage,
                self._owner_vmid,
                plan.file_name,
                plan.size_bytes,
                plan.image_format,
            )
        except _LOOK_FIRST as error:
            return await self._settle(region, plan, error)
        handle = VolumeHandle(plan.handle.region, plan.handle.zone, plan.handle.storage, volid.partition(":")[2])
        if plan.kind.exact:
            return _volume(plan, handle, plan.size_bytes)
        return await self._measured(region, plan, handle)

    async def get(self, handle: VolumeHandle) -> VolumeInfo:
        """Size and format as the storage has them; one request. Raises VolumeNotFound."""
        place = Place.of(self._regions, handle)
        return await place.region.storage.info(await place.find_host(), place.volid)

    async def delete(self, handle: VolumeHandle) -> None:
        """Delete the volume; done already is success. At most two foreground requests.

        Raises FailedPrecondition when it is not ours or something refers to it. Success means that a deletion was seen
        to end well, or that the volume was proved to be gone.
        """
        if handle.owner_vmid != self._owner_vmid or not handle.volume_name.startswith(f"vm-{self._owner_vmid}-"):
            raise FailedPrecondition(
                f"volume {handle.volid} belongs to id {handle.owner_vmid}; this driver deletes only volumes of its own "
                f"id {self._owner_vmid} (features.controllerVmID)"
            )
        place = Place.of(self._regions, handle)
        await guard.check_unreferenced(place)
        try:
            host = await place.find_host()
            await place.region.storage.delete(host, place.volid)
        except VolumeNotFound as error:
            _accept_gone(error)
        except _UNCLEAR as error:
            await self._confirm_gone(place, error)

    def _view(self, region: Region, storage: str) -> RegionView:
        inventory = region.inventory
        hosts = {node.name: node.online for node in inventory.nodes()}
        states = {host: inventory.storage_on(host, storage) for host in hosts}
        return RegionView(
            region=region.name,
            hosts=hosts,
            definition=inventory.definition(storage),
            avail_bytes={host: state.avail_bytes for host, state in states.items() if state is not None},
            loaded=self._regions.is_ready(region),
        )

    async def _find_rival(self, plan: Plan) -> Volume | None:
        """The volume of an earlier attempt on another host, where the choice of host was ours."""
        hosts = plan.placement.rivals
        if not hosts:
            return None
        region = self._regions.get(plan.placement.region)
        found = await asyncio.gather(*(_find_info(region, host, plan.handle.volid) for host in hosts))
        for host, info in zip(hosts, found, strict=True):
            if info is not None:
                handle = VolumeHandle(plan.handle.region, host, plan.handle.storage, plan.handle.disk)
                return _compatible(plan, handle, info)
        return None

    async def _settle(self, region: Region, plan: Plan, cause: PveError) -> Volume:
        """Look what there is after an allocation that did not simply succeed."""
        try:
            info = await region.storage.info(plan.placement.host, plan.handle.volid)
        except VolumeNotFound as missing:
            if isinstance(cause, VolumeExists):
                raise Pending(f"volume {plan.handle.volid} vanished while it was looked at; call again") from cause
            if isinstance(cause, NoSpace) and not missing.proved:
                raise Unavailable(f"{cause}; whether something was left behind is not known: {missing}") from cause
            raise cause from missing
        except ServerFailure as unclear:
            if isinstance(cause, ServerFailure):
                raise cause from unclear
            raise
        if isinstance(cause, PveUnknownOutcome) and info.size_bytes < plan.size.required_bytes:
            raise Unavailable(f"volume {plan.handle.volid} may still be in the making; call again") from cause
        return _compatible(plan, plan.handle, info)

    async def _measured(self, region: Region, plan: Plan, handle: VolumeHandle) -> Volume:
        """A storage type whose rounding is not known tells the size itself."""
        info = await region.storage.info(plan.placement.host, handle.volid)
        if not plan.size.limit_bytes or info.size_bytes <= plan.size.limit_bytes:
            return _volume(plan, handle, info.size_bytes)
        await region.storage.delete(plan.placement.host, handle.volid)
        raise OutOfRange(
            f"storage {handle.storage!r} rounds {plan.size_bytes} bytes up to {info.size_bytes}, more than limit_bytes "
            f"{plan.size.limit_bytes}; the volume was removed again"
        )

    async def _confirm_gone(self, place: Place, cause: PveError) -> None:
        try:
            await place.region.storage.info(await place.find_host(), place.volid)
        except VolumeNotFound as error:
            _accept_gone(error)
        else:
            raise cause


def _accept_gone(error: VolumeNotFound) -> None:
    if not error.proved:
        raise Unavailable(f"whether the volume is gone is not certain: {error}") from error
    _log.info("volume was gone already", extra={"proof": str(error)})


async def _find_info(region: Region, host: str, volid: str) -> VolumeInfo | None:
    try:
        return await region.storage.info(host, volid)
    except VolumeNotFound:
        return None


def _format(kind: StorageType, wished: str, placement: Placement) -> str:
    if kind.has_files or wished != QCOW2:
        return wished or RAW
    # LVM since 9.1 keeps snapshots as a chain of qcow2 volumes, if the storage says so.
    if placement.definition.options.get("snapshot-as-volume-chain"):
        return wished
    raise InvalidRequest(
        f"parameters: storageFormat=qcow2 is not possible on storage {placement.definition.id!r} of type {kind.name!r}"
    )


def _compatible(plan: Plan, handle: VolumeHandle, info: VolumeInfo) -> Volume:
    """The found volume as the answer, or AlreadyExists."""
    if not plan.size.holds(info.size_bytes):
        raise AlreadyExists(f"volume {handle.volid} exists with {info.size_bytes} bytes, which is not {plan.size}")
    if info.format and info.format != plan.image_format:
        raise AlreadyExists(f"volume {handle.volid} exists as {info.format}, not as {plan.image_format}")
    return _volume(plan, handle, info.size_bytes)


def _volume(plan: Plan, handle: VolumeHandle, size_bytes: int) -> Volume:
    if handle.zone:
        zones: tuple[str, ...] | None = (handle.zone,)
    else:
        restricted = plan.placement.definition.nodes
        zones = tuple(sorted(restricted)) if restricted is not None else None
    return Volume(handle, size_bytes, zones, plan.parameters.context())
