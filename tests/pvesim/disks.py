"""A drive string that a caller sent becomes the one the file keeps: new disks are allocated, sizes looked up.

Must not touch the configuration.
"""

from tests.pvesim.call import Call
from tests.pvesim.drives import Drive, format_drive, format_size
from tests.pvesim.errors import die
from tests.pvesim.state import Storage, Vm, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task


async def create_disk(call: Call, vm: Vm, key: str, drive: Drive, task: Task | None) -> str:
    """The drive string to store. 500 with the storage's text when the volume is not there."""
    storages = call.world.storages
    if drive.file in ("none", "cdrom"):
        return format_drive(drive)
    if drive.file.endswith(":cloudinit"):
        return await _create_cloudinit(call, vm, key, drive, task)
    if drive.new_disk is not None and "import-from" in drive.options:
        return await _import(call, vm, key, drive, task)
    if drive.new_disk is not None:
        return await _create_new(call, vm, key, drive, task)
    volume = storages.get_for_attach(drive.file, vm.node)
    if volume.damage == "not-qcow2":
        raise die(f"qemu-img: Could not open '{storages.path_of(volume)}': Image is not in qcow2 format")
    wanted = drive.options.get("format")
    if wanted is not None and wanted != volume.format:
        problem = f"'format={wanted}' option different from storage format '{volume.format}'"
        raise die(f"drive '{key}' - volume '{drive.file}' - {problem}")
    drive = drive.with_options(format=None)
    if not drive.is_cdrom or drive.options.get("media") == "cdrom":
        drive = drive.with_options(size=format_size(volume.size_bytes))
    return format_drive(drive)


async def _create_new(call: Call, vm: Vm, key: str, drive: Drive, task: Task | None) -> str:
    storages = call.world.storages
    storage_id, size_gib = drive.new_disk or ("", 0.0)
    storage = storages.activate(storage_id, vm.node)
    plugin = plugin_of(storage)
    fmt = drive.options.get("format", plugin.default_format)
    if fmt not in plugin.formats:
        fmt = plugin.default_format
    size_bytes = int(size_gib * (1 << 20)) << 10
    name = storages.next_disk_name(storage, vm.node, vm.vmid, fmt)
    volume = await storages.allocate(storage, vm.node, name, size_bytes, fmt)
    _print(task, plugin.format_line(storage, name, fmt, size_bytes))
    stored = format_drive(Drive(volume.volid, drive.with_options(format=None, size=format_size(size_bytes)).options))
    _print(task, [f"{key}: successfully created disk '{stored}'"])
    return stored


async def _import(call: Call, vm: Vm, key: str, drive: Drive, task: Task | None) -> str:
    """A copy of a volume under a new name that the VM owns."""
    storages = call.world.storages
    storage = storages.activate((drive.new_disk or ("", 0.0))[0], vm.node)
    source_id = drive.options["import-from"]
    source = storages.find_volume(source_id, vm.node)
    if source is None:
        raise die(f"cannot import from '{source_id}' - could not get size of {source_id}")
    target = await copy_volume(call, source, vm.vmid, storage, drive.options.get("format"), vm.node, task)
    options = drive.with_options(
        **{"import-from": None, "format": None, "size": format_size(source.size_bytes)}
    ).options
    stored = format_drive(Drive(target.volid, options))
    _print(task, [f"{key}: successfully created disk '{stored}'"])
    return stored


async def copy_volume(
    call: Call,
    source: Volume,
    vmid: int,
    storage: Storage,
    fmt: str | None,
    node: str,
    task: Task | None,
    key: str = "",
) -> Volume:
    """A full copy named and owned as the VM's next disk."""
    world = call.world
    plugin = plugin_of(storage)
    wanted = fmt or source.format
    if wanted not in plugin.formats:
        wanted = plugin.default_format
    is_cloudinit = "cloudinit" in source.name
    name = (
        plugin.cloudinit_name(vmid)[0] if is_cloudinit else world.storages.next_disk_name(storage, node, vmid, wanted)
    )
    if is_cloudinit and "/" in name:
        name = name.rsplit(".", 1)[0] + f".{wanted}"
    _print(
        task,
        [
            f"create full clone of drive {key} ({source.volid})"
            if key
            else f"create full clone of drive ({source.volid})"
        ],
    )
    target = await world.storages.allocate(storage, node, name, source.size_bytes, wanted)
    _print(task, plugin.format_line(storage, name, wanted, source.size_bytes))
    _print(task, [f"allocated target volume '{target.volid}'"])
    if not is_cloudinit:
        await world.clock.sleep(world.profile.copy_s_per_gib * source.size_bytes / (1 << 30))
        await world.storages.copy(source, target)
        whole = human_size(source.size_bytes)
        _print(task, [f"transferred 0.0 B of {whole} (0.00%)", f"transferred {whole} of {whole} (100.00%)"])
    return target


def human_size(size_bytes: int) -> str:
    """As Proxmox VE prints progress: `1.0 GiB`."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.1f} B"


async def _create_cloudinit(call: Call, vm: Vm, key: str, drive: Drive, task: Task | None) -> str:
    storages = call.world.storages
    storage = storages.activate(drive.file.partition(":")[0], vm.node)
    name, fmt = plugin_of(storage).cloudinit_name(vm.vmid)
    if storages.find_volume(f"{storage.storage_id}:{name}", vm.node) is None:
        await storages.allocate(storage, vm.node, name, 4 << 20, fmt)
        _print(task, plugin_of(storage).format_line(storage, name, fmt, 4 << 20))
    stored = format_drive(Drive(f"{storage.storage_id}:{name}", {**drive.options, "media": "cdrom"}))
    _print(task, [f"{key}: successfully created disk '{stored}'"])
    return stored


def _print(task: Task | None, lines: list[str]) -> None:
    if task is not None:
        for line in lines:
            task.print(line)
