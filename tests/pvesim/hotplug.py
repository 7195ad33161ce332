"""Disks coming and going in a running guest, and which pending changes a running guest takes. qemu-server 9, recorded.

Must not touch the pending section; `configwrite.py` does, with what this module says.
"""

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tests.pvesim.drives import Drive, drives_of, is_drive_key, parse_drive
from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Plugged, Vm, Volume
from tests.pvesim.vmconfig import add_unused, boot_order

if TYPE_CHECKING:
    from tests.pvesim.world import World

# Proxmox VE asks QEMU once a second whether a device has gone.
SCSI_POLLS = 1
PCI_STUCK_POLLS = 6
CONTROLLER_STUCK_POLLS = 16
# Of a SCSI disk's serial number, by QEMU.
MAX_SERIAL_CHARS = 36
DEFAULT_HOTPLUG = frozenset(["disk", "network", "usb"])
# Options that mean nothing to the running process and apply at once.
FAST_OPTIONS = frozenset(
    [
        "name", "description", "tags", "onboot", "startup", "protection", "vmstatestorage", "hotplug", "shares", "lock",
        "affinity", "migrate_downtime", "migrate_speed", "hookscript", "cpuunits", "cpulimit", "ciuser", "cipassword",
        "citype", "ciupgrade", "cicustom", "sshkeys", "nameserver", "searchdomain",
    ]
)  # fmt: skip
# What cannot change on a plugged disk.
_FIXED_DISK_OPTIONS = ("aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro")


class NotHotpluggable(Exception):
    """The change has to wait for the next start."""


def features(vm: Vm) -> frozenset[str]:
    """The hotplug option; 1 and absent are the default list."""
    text = vm.conf.get("hotplug", "1")
    if text == "1":
        return DEFAULT_HOTPLUG
    return frozenset() if text == "0" else frozenset(re.split(r"[,;\s]+", text))


def is_fast(key: str) -> bool:
    """Whether an option applies to a running VM without touching it."""
    return key in FAST_OPTIONS or re.fullmatch(r"ipconfig\d+", key) is not None


def _is_single(vm: Vm, key: str) -> bool:
    return key.startswith("scsi") and vm.conf.get("scsihw") == "virtio-scsi-single"


async def plug(world: "World", vm: Vm, key: str, drive: Drive) -> None:
    """The disk appears in the guest. Proxmox VE does not verify it, so nothing fails here."""
    if drive.is_cdrom:
        return
    volume = world.storages.get_for_attach(drive.file, vm.node)
    if drive.options.get("snapshot") == "1":
        raise die("'snapshot' option is not yet supported for '-blockdev'")
    if volume.damage == "no-backing":
        cause = "Could not open backing file: Could not open '/nonexistent.raw': No such file or directory\n"
        raise die(f"adding blockdev 'drive-{key}' failed : VM {vm.vmid} qmp command 'blockdev-add' failed - {cause}")
    if key in vm.poisoned_slots:
        cause = f"attempt to add duplicate property 'throttle-drive-{key}' to object (type 'container')"
        raise die(f"VM {vm.vmid} qmp command 'object-add' failed - {cause}")
    await world.clock.sleep(world.profile.plug_s)
    if _is_single(vm, key):
        await world.clock.sleep(world.profile.plug_controller_s)
    if len(unquote(drive.options.get("serial", ""))) > MAX_SERIAL_CHARS:
        # QEMU refuses the device, nobody looks, and what was prepared for it stays: success without a disk.
        vm.poisoned_slots.add(key)
        return
    plugged = Plugged(key, drive.file, drive.options.get("wwn"), drive.options.get("serial"))
    await _appear(world, vm, plugged, volume)


async def unplug(world: "World", vm: Vm, key: str) -> None:
    """The disk goes. SCSI disks need no guest; PCI devices (virtio disks, one controller a disk) do."""
    plugged = vm.plugged.get(key)
    if plugged is None:
        return
    if key in boot_order(vm.conf):
        raise die(f"can't unplug bootdisk '{key}'")
    if key.startswith("virtio") and not await _guest_lets_go(world, vm, PCI_STUCK_POLLS):
        # The request to eject stays with the guest; a later try finds the device on its way out.
        await _vanish(world, vm, plugged)
        raise die(f"error on hot-unplugging device '{key}' - still busy in guest?")
    await world.clock.sleep(world.profile.unplug_poll_s * SCSI_POLLS)
    await _vanish(world, vm, plugged)
    if not _is_single(vm, key):
        return
    number = key.removeprefix("scsi")
    vm.stuck_controllers.add(key)
    if not await _guest_lets_go(world, vm, CONTROLLER_STUCK_POLLS):
        raise die(f"error on hot-unplugging device 'virtioscsi{number}' - still busy in guest?")
    vm.stuck_controllers.discard(key)
    await world.clock.sleep(world.profile.unplug_poll_s)


async def _guest_lets_go(world: "World", vm: Vm, polls: int) -> bool:
    """Whether the guest is awake, or wakes up within so many polls."""
    for _ in range(polls):
        if not (vm.paused or vm.guest_dead):
            return True
        await world.clock.sleep(world.profile.unplug_poll_s)
    return not (vm.paused or vm.guest_dead)


async def _appear(world: "World", vm: Vm, plugged: Plugged, volume: Volume) -> None:
    vm.plugged[plugged.key] = plugged
    volume.holders.add((vm.vmid, plugged.key))
    await world.blocks.plug(vm, plugged, volume)


async def _vanish(world: "World", vm: Vm, plugged: Plugged) -> None:
    vm.plugged.pop(plugged.key, None)
    volume = world.storages.find_volume(plugged.volid, vm.node)
    if volume is not None:
        volume.holders.discard((vm.vmid, plugged.key))
    await world.blocks.unplug(vm, plugged)


async def guest_wakes(world: "World", vm: Vm) -> None:
    """A guest that runs again finishes ejecting the controllers it was asked for, with what is in the slot by now."""
    for key in sorted(vm.stuck_controllers):
        if key in vm.plugged:
            await _vanish(world, vm, vm.plugged[key])
    vm.stuck_controllers.clear()


async def plug_all(world: "World", vm: Vm) -> None:
    """Start: every disk of the configuration must exist; then they are all there."""
    drives = [(key, drive) for key, drive in drives_of(vm.conf) if not drive.is_cdrom]
    for _, drive in drives:
        world.storages.get_for_attach(drive.file, vm.node)
    for key, drive in drives:
        plugged = Plugged(key, drive.file, drive.options.get("wwn"), drive.options.get("serial"))
        await _appear(world, vm, plugged, world.storages.get_for_attach(drive.file, vm.node))


async def unplug_all(world: "World", vm: Vm) -> None:
    """Stop: nothing is there any more."""
    for plugged in list(vm.plugged.values()):
        await _vanish(world, vm, plugged)
    vm.stuck_controllers.clear()
    vm.poisoned_slots.clear()


async def hot_delete(world: "World", vm: Vm, key: str) -> None:
    """Take a device off a running VM; NotHotpluggable if that waits for the next start."""
    if is_drive_key(key):
        if "disk" not in features(vm) or re.match(r"ide|sata|efidisk|tpmstate", key):
            raise NotHotpluggable
        await unplug(world, vm, key)
    elif re.fullmatch(r"net\d+", key):
        if "network" not in features(vm):
            raise NotHotpluggable
        await world.clock.sleep(world.profile.unplug_poll_s)
    elif key not in FAST_OPTIONS and not is_fast(key):
        raise NotHotpluggable


async def hot_change(world: "World", vm: Vm, key: str, value: str) -> None:
    """Give a running VM a changed device; NotHotpluggable if that waits for the next start."""
    if is_drive_key(key):
        await _hot_change_drive(world, vm, key, parse_drive(value))
    elif re.fullmatch(r"net\d+", key):
        if "network" not in features(vm):
            raise NotHotpluggable
    elif not is_fast(key):
        raise NotHotpluggable


async def _hot_change_drive(world: "World", vm: Vm, key: str, drive: Drive) -> None:
    if key in ("efidisk0", "tpmstate0"):
        raise NotHotpluggable
    can_plug = "disk" in features(vm)
    if key in vm.conf:
        old = parse_drive(vm.conf[key])
        if old.is_cdrom_media != drive.is_cdrom_media:
            raise die("unable to change media type")
        if old.is_cdrom:
            return
        if old.file == drive.file:
            if any(old.options.get(name) != drive.options.get(name) for name in _FIXED_DISK_OPTIONS):
                raise NotHotpluggable
            return
        if not can_plug:
            raise NotHotpluggable
        await unplug(world, vm, key)
        add_unused(world, vm, old.file)
    if not can_plug or re.match(r"ide|sata", key):
        raise NotHotpluggable
    await plug(world, vm, key, drive)


def describe(error: ApiError) -> str:
    """How a failed hot-plug is worded in `errors`."""
    return f"hotplug problem - {error.message}\n"
