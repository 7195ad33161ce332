"""Who may set which key of a VM's configuration (PVE::API2::Qemu). Recorded from 9.2.

Must not change anything.
"""

import re
from collections.abc import Iterable, Mapping

from tests.pvesim.call import Call
from tests.pvesim.drives import Drive, is_drive_key, parse_drive
from tests.pvesim.errors import die, param_error, param_errors
from tests.pvesim.volaccess import check_volume_access

_OPTIONS = {
    "VM.Config.CPU": ("cores", "cpu", "cpulimit", "cpuunits", "numa", "smp", "sockets", "vcpus"),
    "VM.Config.Memory": ("memory", "balloon", "shares", "allow-ksm"),
    "VM.Config.HWType": (
        "acpi", "hotplug", "kvm", "machine", "scsihw", "smbios1", "tablet", "vga", "watchdog", "audio0", "rng0",
        "vmgenid",
        "spice_enhancements", "arch", "ivshmem", "amd-sev", "intel-tdx",
    ),
    "VM.Config.Options": (
        "agent", "autostart", "bios", "description", "keyboard", "localtime", "migrate_downtime", "migrate_speed",
        "name", "onboot", "ostype", "protection", "reboot", "startdate", "startup", "tdf", "template", "freeze",
        "hookscript",
    ),
    "VM.Config.Disk": ("boot", "bootdisk", "vmstatestorage"),
    "VM.Config.Network": ("archname",),
}  # fmt: skip
_PRIVILEGE_OF = {key: privilege for privilege, keys in _OPTIONS.items() for key in keys}
_CLOUDINIT = frozenset(
    ["cicustom", "cipassword", "citype", "ciuser", "ciupgrade", "nameserver", "searchdomain", "sshkeys"]
)
_LATER = re.compile(r"(?:unused|serial|usb|hostpci)\d+|cdrom|tags|virtiofs\d+")


def check_key_rights(call: Call, vmid: int, keys: Iterable[str]) -> None:
    """Raise for the first key that the caller may not set; what is not in a table only root may."""
    if call.who.is_root:
        return
    path = f"/vms/{vmid}"
    for key in keys:
        if is_drive_key(key) or _LATER.fullmatch(key):
            continue
        if key in _PRIVILEGE_OF:
            call.require(path, _PRIVILEGE_OF[key])
            if key == "startup":
                call.require("/", "Sys.Modify")
        elif re.fullmatch(r"numa\d+", key):
            call.require(path, "VM.Config.CPU")
        elif re.fullmatch(r"net\d+", key):
            call.require(path, "VM.Config.Network")
        elif key in _CLOUDINIT or re.fullmatch(r"ipconfig\d+", key):
            call.require_any(path, "VM.Config.Cloudinit", "VM.Config.Network")
        else:
            raise die(f"only root can set '{key}' config")


def check_drive_rights(call: Call, vmid: int, drive: Drive) -> None:
    """A drive needs VM.Config.Disk, a CD-ROM VM.Config.CDROM."""
    call.require(f"/vms/{vmid}", "VM.Config.CDROM" if drive.is_cdrom else "VM.Config.Disk")


def check_storage_rights(call: Call, vmid: int | None, sets: Mapping[str, str]) -> None:
    """Every drive's volume, or the space for a new one."""
    for key, value in sets.items():
        if is_drive_key(key):
            _check_drive(call, vmid, key, parse_drive(value))
        elif re.fullmatch(r"unused\d+", key):
            check_volume_access(call, vmid, parse_drive(value).file)
    if "vmstatestorage" in sets:
        call.require(f"/storage/{sets['vmstatestorage']}", "Datastore.AllocateSpace")


def _check_drive(call: Call, vmid: int | None, key: str, drive: Drive) -> None:
    if drive.file == "none" or drive.file.endswith(":cloudinit"):
        return
    if drive.file == "cdrom":
        call.require("/", "Sys.Console")
        return
    if not drive.is_cdrom and drive.new_disk is not None:
        storage_id, _ = drive.new_disk
        if not storage_id:
            raise die("no storage ID specified (and no default storage)")
        call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
        if "import-from" in drive.options:
            _check_import(call, vmid, key, drive)
        storage = call.world.storages.get(storage_id)
        if "images" not in storage.content:
            raise param_error(storage=f"storage '{storage_id}' does not support vm images")
        return
    check_volume_access(call, vmid, drive.file)
    if ":" in drive.file and call.world.storages.parse(drive.file).content not in ("images", "iso"):
        raise param_error(**{key: "content type needs to be 'images' or 'iso'"})


def _check_import(call: Call, vmid: int | None, key: str, drive: Drive) -> None:
    """Copying from another VM's disk needs VM.Clone there, whatever the rights on its storage are."""
    source = drive.options["import-from"]
    if drive.new_disk is None or drive.new_disk[1]:
        raise param_errors({key: "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"})
    if source.startswith("/"):
        check_volume_access(call, vmid, source)
    owner = call.world.storages.parse(source).owner
    if owner is not None and owner != vmid:
        call.require(f"/vms/{owner}", "VM.Clone")


def check_set_rights(call: Call, sets: Mapping[str, str]) -> None:
    """A bridge needs SDN.Use in its zone."""
    for key, value in sets.items():
        if not re.fullmatch(r"net\d+", key):
            continue
        bridge = re.search(r"(?:^|,)bridge=([^,]+)", value)
        if bridge:
            call.require(f"/sdn/zones/localnetwork/{bridge[1]}", "SDN.Use")
