"""What one write to a VM's config must hold so that wishes come true. Pure.

Only drives whose parsed volume id equals a wish's exactly are touched: plugged, unplugged, or a waiting entry of theirs
reverted. Every other drive, waiting or not, stays as it is.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from appkit.errors import DriverError, FailedPrecondition, ResourceExhausted
from pvekit.drives import Drive, free_scsi_slot, scsi_slot
from pvekit.vm_config import VmConfig


@dataclass(frozen=True, slots=True)
class Traces:
    """Config keys that refer to one volume. `unusedN` entries are none: no guest sees them."""

    live: tuple[str, ...]
    """The guest has it, and nothing waits to change that (waiting options of the same volume do not)."""
    leaving: tuple[str, ...]
    """The guest may have it; its removal waits, so an unplug failed half-way or was never tried."""
    replaced: tuple[str, ...]
    """The guest has it; another volume waits to take its key."""
    waiting: tuple[str, ...]
    """The guest does not have it; it waits to be plugged."""

    def __bool__(self) -> bool:
        return bool(self.live or self.leaving or self.replaced or self.waiting)


def traces(config: VmConfig, volid: str) -> Traces:
    """Where a VM's config refers to a volume."""
    live, leaving, replaced, waiting = [], [], [], []
    coming = config.pending_drives()
    for key, drive in sorted(config.drives().items()):
        if drive.volid != volid:
            continue
        if key in config.deletes:
            leaving.append(key)
        elif key in config.pending and (key not in coming or coming[key].volid != volid):
            replaced.append(key)
        else:
            live.append(key)
    for key, drive in sorted(coming.items()):
        if drive.volid == volid and key not in live:
            waiting.append(key)
    return Traces(tuple(live), tuple(leaving), tuple(replaced), tuple(key for key in waiting if key not in leaving))


@dataclass(frozen=True, slots=True)
class Wish:
    """`attach`: the volume shall be a live drive, with `options` if it has to be plugged; else it shall be nowhere.

    `hosts`: where the volume of this id is the one that is meant; None: everywhere. `system_uuid`: what the guest that
    is meant reports; "": not known.
    """

    attach: bool
    volid: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    hosts: frozenset[str] | None = field(default=None, hash=False, compare=False)
    system_uuid: str = field(default="", hash=False, compare=False)

    def done(self, config: VmConfig) -> bool:
        """Whether the config shows it to be true, with nothing waiting that would undo it."""
        found = traces(config, self.volid)
        if not self.attach:
            return not found
        on_scsi = found.live and all(scsi_slot(key) is not None for key in found.live)
        return bool(on_scsi) and not (found.leaving or found.replaced or found.waiting)


@dataclass
class Plan:
    """One write. `keys`: which keys it touches for which wish; `refused`: wishes that no write can make true."""

    changes: dict[str, str] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)
    reverts: list[str] = field(default_factory=list)
    keys: dict[Wish, tuple[str, ...]] = field(default_factory=dict)
    refused: dict[Wish, DriverError] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.changes or self.deletes or self.reverts)


def make_plan(
    config: VmConfig,
    wishes: Iterable[Wish],
    *,
    banned: Collection[str],
    discard: Iterable[Wish] = (),
    plug_first: Collection[Wish] = (),
    vm: str,
) -> Plan:
    """The write that brings `wishes` nearer; one whose removal is only half done needs a second write afterwards.

    A removal in `plug_first` does not revert what waits to be plugged, it plugs it: the guest may have the disk
    already, if the config could not be written after the plug (the quorum was lost, the worker was killed), and only a
    disk that the config knows can be taken away. `banned` are keys that must not be filled. What waits for the wishes
    of `discard` (given up) is reverted in passing.
    `vm` names the VM in texts.
    """
    plan = Plan()
    for wish in wishes:
        _add(plan, config, wish, banned, vm, plug_first=wish in plug_first)
    for wish in discard:
        if wish.attach:
            plan.reverts += traces(config, wish.volid).waiting
    # A removal takes what waits for its key with it, and Proxmox VE refuses both for one key.
    plan.deletes = list(dict.fromkeys(plan.deletes))
    plan.reverts = [key for key in dict.fromkeys(plan.reverts) if key not in plan.deletes and key not in plan.changes]
    return plan


def _add(plan: Plan, config: VmConfig, wish: Wish, banned: Collection[str], vm: str, *, plug_first: bool) -> None:
    found = traces(config, wish.volid)
    deletes: tuple[str, ...] = ()
    reverts: tuple[str, ...] = found.waiting
    changes: dict[str, str] = {}
    if not wish.attach:
        deletes = found.live + found.leaving + found.replaced
        if plug_first:
            changes = {key: config.pending[key].value for key in found.waiting if key not in config.current}
            reverts = tuple(key for key in found.waiting if key not in changes)
        if boots := [key for key in deletes if key in config.boot_keys]:
            # Proxmox VE refuses this to a running VM and leaves the removal waiting: the VM would not start again.
            plan.refused[wish] = FailedPrecondition(f"{wish.volid} is {boots[0]} of {vm}, which it boots from")
            return
    elif other := [key for key in found.live if scsi_slot(key) is None]:
        plan.refused[wish] = FailedPrecondition(
            f"{wish.volid} is attached to {vm} as {other[0]}, which this program never does; detach it there first"
        )
        return
    elif found.leaving and not config.hotplugs_disks:
        # Nobody has tried to unplug it, so taking the wish back is enough.
        reverts += found.leaving
    elif found.live or found.leaving:
        # An unplug that failed has often got half-way: only finishing it and plugging anew brings a working disk.
        deletes = found.leaving
        reverts += found.replaced
    elif found.replaced:
        reverts += found.replaced
    else:
        key = _key_for(plan, config, found.waiting, banned)
        if key is None:
            plan.refused[wish] = _no_slot(config, banned, vm)
            return
        changes[key] = Drive(wish.volid, wish.options).format()
    plan.changes.update(changes)
    plan.deletes += deletes
    plan.reverts += reverts
    plan.keys[wish] = (*changes, *deletes, *reverts)


def _key_for(plan: Plan, config: VmConfig, waiting: Iterable[str], banned: Collection[str]) -> str | None:
    """The slot it already waits for, if that is a free one of ours; else the lowest free slot."""
    for key in waiting:
        if (scsi_slot(key) or 0) >= 1 and key not in config.current and key not in banned:
            return key
    slot = free_scsi_slot({*config.taken_keys(), *plan.changes, *banned})
    return None if slot is None else f"scsi{slot}"


def _no_slot(config: VmConfig, banned: Collection[str], vm: str) -> ResourceExhausted:
    resting = sorted(key for key in banned if key not in config.taken_keys())
    text = f"{vm} has no free slot among scsi1 to scsi30"
    if resting:
        text += (
            f"; {', '.join(resting)} must rest until the VM is restarted, after an unplug that its guest did not finish"
        )
    return ResourceExhausted(text)


def why_waiting(config: VmConfig, wish: Wish, vm: str) -> DriverError | None:
    """The VM's setting that keeps a stored change waiting; None when none is to blame."""
    doing = "attached to" if wish.attach else "detached from"
    if not config.hotplugs_disks:
        return FailedPrecondition(
            f"{wish.volid} cannot be {doing} {vm} while it runs: "
            f"its option hotplug is {config.current.get('hotplug')!r}; add disk to it"
        )
    if not config.scsi_controller.startswith("virtio-scsi"):
        return FailedPrecondition(
            f"{wish.volid} cannot be {doing} {vm} while it runs: its SCSI controller (scsihw) is "
            f"{config.scsi_controller!r}; set virtio-scsi-single or virtio-scsi-pci"
        )
    return None
