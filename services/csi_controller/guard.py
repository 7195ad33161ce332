"""Who else refers to a volume. Proxmox VE attaches one volume to two running VMs, and deletes it under them, unasked.

Must not act; it only refuses, and only after the VMs that it names were read anew: another process, or an operator,
may have taken the volume away meanwhile. The index raises when it cannot see every VM, so that a short answer is never
taken for "nobody".
"""

from collections.abc import Iterable

from appkit.errors import FailedPrecondition
from csi_controller.whereabouts import Place
from pvekit.drive_index import Holder

ATTACH_MAX_AGE_S = 60.0
"""How old the index may be for an attachment: what this process does is known at once, only others are seen late."""
DELETE_MAX_AGE_S = 10.0
"""For a deletion, which cannot be undone: as old as Proxmox VE's own lists."""

_IN_USE = ("live", "pending")


async def users(place: Place, max_age_s: float = ATTACH_MAX_AGE_S) -> list[Holder]:
    """References by which a guest has the volume, or soon will. No foreground request; raises what the index raises."""
    found = await _holders(place, max_age_s)
    return [holder for holder in found if holder.state in _IN_USE]


async def check_free_for(place: Place, vmid: int) -> None:
    """Raises FailedPrecondition when any other VM than `vmid` has the volume, and names it."""
    others = [holder for holder in await users(place) if holder.vmid != vmid]
    if others:
        await place.region.drives.reread({holder.vmid for holder in others})
        others = [holder for holder in await users(place) if holder.vmid != vmid]
    if others:
        raise FailedPrecondition(
            f"volume {place.volid} is attached to {describe(place, others)}; it must be detached there first, a disk "
            "in two VMs is destroyed"
        )


async def check_unreferenced(place: Place) -> None:
    """Raises FailedPrecondition when anything refers to the volume (unusedN and snapshots too), and names it."""
    found = await _holders(place, DELETE_MAX_AGE_S, with_snapshots=True)
    if found:
        await place.region.drives.reread({holder.vmid for holder in found})
        found = await _holders(place, DELETE_MAX_AGE_S, with_snapshots=True)
    if found:
        raise FailedPrecondition(
            f"volume {place.volid} is not deleted, since it is still referred to by {describe(place, found)}"
        )


async def _holders(place: Place, max_age_s: float, *, with_snapshots: bool = False) -> list[Holder]:
    return await place.region.drives.holders(
        place.volid, max_age_s=max_age_s, nodes=place.holder_hosts, with_snapshots=with_snapshots
    )


def describe(place: Place, holders: Iterable[Holder]) -> str:
    """`VM 112 (worker-2) on pve2, scsi3 (live)`, for each."""
    return "; ".join(f"{_vm(place, each)}, {each.key} ({each.state})" for each in holders)


def _vm(place: Place, holder: Holder) -> str:
    entry = place.region.inventory.vm(holder.vmid)
    name = f" ({entry.name})" if entry is not None and entry.name else ""
    return f"VM {holder.vmid}{name} on {holder.node}"
