"""Growing a volume while a VM has it. Proxmox VE grows drives of VMs, not volumes as such.

Must not shrink, and must not report a size that neither the VM's config nor the storage shows.
"""

from contextlib import suppress

from appkit.errors import FailedPrecondition, OutOfRange, Unavailable
from appkit.locks import KeyedLock
from csi_controller import guard
from csi_controller.regions import Regions
from csi_controller.sizes import SizeRange, smallest_size
from csi_controller.whereabouts import Place
from csikit.handles import VolumeHandle
from pvekit.drive_index import Holder
from pvekit.drives import Drive
from pvekit.errors import SizeRefused
from pvekit.vm_config import VmConfig


class Expansion:
    """Grows attached volumes; one after the other in each VM, since each one changes the config's digest."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._vm_locks = KeyedLock()

    async def expand(self, handle: VolumeHandle, wanted: SizeRange) -> int:
        """Grow to the smallest size that satisfies `wanted`; the size afterwards. Three foreground requests, one if
        it is large enough already.

        Raises NotFound (proved), FailedPrecondition (attached nowhere), OutOfRange.
        """
        place = Place.of(self._regions, handle)
        holders = await _live(place) or await _live(place, max_age_s=0.0)
        if not holders:
            return await self._detached(place, wanted)
        if len({holder.vmid for holder in holders}) > 1:
            raise FailedPrecondition(f"volume {place.volid} is attached to {guard.describe(place, holders)} at once")
        async with self._vm_locks.hold((place.region.name, holders[0].vmid)):
            return await self._attached(place, holders[0], wanted)

    async def _attached(self, place: Place, holder: Holder, wanted: SizeRange) -> int:
        vm = await place.region.locator.get(holder.vmid)
        place.check_reach(vm.node, f"VM {vm.vmid}")
        config = await place.region.drives.read(vm.node, vm.vmid)
        key, drive = _find_drive(place, config, holder)
        size_bytes = drive.size_bytes or 0
        if (target_bytes := _target(place, wanted, size_bytes)) is None:
            return size_bytes
        with suppress(SizeRefused):
            await place.region.vms.resize(vm.node, vm.vmid, key, target_bytes, config.digest)
            _, drive = _find_drive(place, await place.region.drives.read(vm.node, vm.vmid), holder)
        if drive.size_bytes and drive.size_bytes >= target_bytes:
            return drive.size_bytes
        # Without quorum the image grows and the config keeps the old size; growing to the same size again is no change
        # and growing to less is refused. So the image itself is asked.
        info = await place.region.storage.info(vm.node, place.volid)
        if _target(place, wanted, info.size_bytes) is None:
            return info.size_bytes
        raise Unavailable(
            f"volume {place.volid} was to be grown to {target_bytes} bytes, but the config of VM {vm.vmid} says "
            f"{drive.size_bytes} and the storage {info.size_bytes}; call again"
        )

    async def _detached(self, place: Place, wanted: SizeRange) -> int:
        info = await place.region.storage.info(await place.find_host(), place.volid)
        if _target(place, wanted, info.size_bytes) is None:
            return info.size_bytes
        raise FailedPrecondition(
            f"volume {place.volid} is attached to no VM; Proxmox VE grows a disk only in a VM: start a Pod that uses "
            "the claim, and it is grown then (online expansion)"
        )


async def _live(place: Place, max_age_s: float = guard.ATTACH_MAX_AGE_S) -> list[Holder]:
    return [holder for holder in await guard.users(place, max_age_s) if holder.state == "live"]


def _target(place: Place, wanted: SizeRange, size_bytes: int) -> int | None:
    """The size to grow to; None when `size_bytes` satisfies the request. Raises OutOfRange."""
    if wanted.holds(size_bytes):
        return None
    if size_bytes > wanted.required_bytes:
        raise OutOfRange(f"volume {place.volid} has {size_bytes} bytes, more than limit_bytes {wanted.limit_bytes}")
    return smallest_size(wanted, step_bytes=place.kind.step_bytes, fs_type="")


def _find_drive(place: Place, config: VmConfig, holder: Holder) -> tuple[str, Drive]:
    for key, drive in config.drives().items():
        if drive.volid == place.volid and key not in config.deletes:
            return key, drive
    raise Unavailable(f"volume {place.volid} is no longer live in VM {holder.vmid}; call again")
