"""A drive string that a caller sent becomes the one the file keeps: new disks are allocated, sizes looked up.

Must not touch the configuration.
"""

from tests.pvesim.call import Call
from tests.pvesim.diskcopy import copy_volume
from tests.pvesim.drives import Drive, format_drive, format_size
from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Vm
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
    if fmt not in plugin.formats_of(storage):
        fmt = plugin.default_format
    size_bytes = int(size_gib * (1 << 20)) << 10
    volume = await storages.allocate_next(storage, vm.node, vm.vmid, size_bytes, fmt)
    _print(task, plugin.format_line(storage, volume.name, fmt, size_bytes))
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
    try:
        target = await copy_volume(call, source, vm.vmid, storage, drive.options.get("format"), vm.node, task)
    except ApiError as error:
        raise die(f"cannot import from '{source_id}' - {error.task_text}") from error
    options = drive.with_options(
        **{"import-from": None, "format": None, "size": format_size(source.size_bytes)}
    ).options
    stored = format_drive(Drive(target.volid, options))
    _print(task, [f"{key}: successfully created disk '{stored}'"])
    return stored


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
