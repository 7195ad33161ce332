"""Snapshots of VMs: make, list, roll back, delete; leftovers and locks when a volume is gone. Recorded from 9.2."""

from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.configread import snapshot_config
from tests.pvesim.drives import drives_of, format_drive, format_size
from tests.pvesim.errors import die
from tests.pvesim.power import power_off
from tests.pvesim.state import Snapshot, Vm, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_lock, config_lock, find_vm, get_vm, keep_unused, missing_config, save
from tests.pvesim.vmstatus import memory_mib

_RESERVED = ("current", "pending")
_STATE_EXTRA_MIB = 500


def _find(call: Call) -> Vm:
    vm = find_vm(call.world, call.node, call.vmid)
    if vm is None:
        raise missing_config(call.node, call.vmid)
    return vm


def can_snapshot(call: Call, vm: Vm) -> bool:
    """Every disk must be on a storage and in a format that can; one raw file is enough to forbid it."""
    storages = call.world.storages
    for _, drive in drives_of(vm.conf):
        if drive.is_cdrom:
            continue
        storage, name = storages.split(drive.file)
        plugin = plugin_of(storage)
        if not plugin.can_snapshot(storage, plugin.parse(storage, name).format):
            return False
    return True


async def get_list(call: Call) -> Any:
    """Snapshots, and a pseudo entry `current`."""
    vm = get_vm(call)
    entries: list[dict[str, Any]] = []
    for snapshot in vm.snapshots.values():
        entry: dict[str, Any] = {
            "name": snapshot.name, "description": snapshot.description, "snaptime": snapshot.snaptime,
            "vmstate": int(snapshot.vmstate),
        }  # fmt: skip
        if snapshot.parent:
            entry["parent"] = snapshot.parent
        entries.append(entry)
    current: dict[str, Any] = {
        "name": "current", "description": "You are here!", "digest": vm.digest, "running": int(vm.running),
    }  # fmt: skip
    if vm.parent:
        current["parent"] = vm.parent
    return [*entries, current]


async def create(call: Call) -> Any:
    """A snapshot of the configuration and of every disk."""
    name = call.params["snapname"]
    if name in _RESERVED:
        raise die(f"unable to use snapshot name '{name}' (reserved name)")

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            check_lock(vm)
            if vm.is_template:
                raise die("you can't take a snapshot if it's a template")
            if name in vm.snapshots:
                raise die(f"snapshot name '{name}' already used")
            if not can_snapshot(call, vm):
                raise die("snapshot feature is not available")
            await _take(call, vm, name, task)

    return call.start_task("qmsnapshot", str(call.vmid), work).upid


async def _take(call: Call, vm: Vm, name: str, task: Task) -> None:
    world = call.world
    with_ram = call.flag("vmstate") and vm.running
    snapshot = Snapshot(
        name, dict(vm.conf), world.clock.time(), call.params.get("description", ""), vm.parent, with_ram
    )
    if with_ram:
        snapshot.conf["vmstate"] = await _save_ram(call, vm, name, task)
    if vm.running and not with_ram and vm.conf.get("agent", "0") == "0":
        task.print("skipping guest filesystem freeze - disabled in VM options")
    for key, drive in sorted(drives_of(vm.conf)):
        if drive.is_cdrom:
            continue
        volume = world.storages.get_for_attach(drive.file, vm.node)
        plugin = plugin_of(world.storages.get(volume.storage))
        task.print(f"snapshotting 'drive-{key}' ({drive.file})")
        if vm.running and volume.format == "qcow2":
            task.print("internal qemu snapshot")
        for line in plugin.snapshot_lines(volume.name, name, created=True):
            task.print(line)
        volume.snapshots[name] = volume.size_bytes
    vm.snapshots[name] = snapshot
    vm.parent = name
    save(world, vm)


async def _save_ram(call: Call, vm: Vm, name: str, task: Task) -> str:
    world = call.world
    target = vm.conf.get("vmstatestorage") or next(
        (d.file.partition(":")[0] for _, d in sorted(drives_of(vm.conf)) if not d.is_cdrom), "local"
    )
    storage = world.storages.activate(target, vm.node)
    plugin = plugin_of(storage)
    size_bytes = (memory_mib(vm) * 2 + _STATE_EXTRA_MIB) << 20
    volume_name = plugin.state_name(vm.vmid, name)
    volume = await world.storages.allocate(storage, vm.node, volume_name, size_bytes, "raw")
    for line in plugin.format_line(storage, volume_name, "raw", size_bytes):
        task.print(line)
    task.print(f"saving VM state and RAM using storage '{target}'")
    task.print("completed saving the VM state in 0s, saved 1.00 MiB")
    return volume.volid


async def rollback(call: Call) -> Any:
    """Back to a snapshot; a volume that is gone leaves lock "rollback" behind."""
    name = call.params["snapname"]

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            check_lock(vm)
            snapshot = vm.snapshots.get(name)
            if snapshot is None:
                raise die(f"snapshot '{name}' does not exist")
            _check_newest(call, vm, snapshot)
            if vm.running:
                await power_off(call, vm)
            vm.conf["lock"] = "rollback"
            save(call.world, vm)
            for volume in _volumes(call, vm, snapshot, task, "-a", force=False):
                volume.size_bytes = volume.snapshots.get(name, volume.size_bytes)
            _restore(call, vm, snapshot)

    return call.start_task("qmrollback", str(call.vmid), work).upid


def _check_newest(call: Call, vm: Vm, snapshot: Snapshot) -> None:
    """Some storages go back to the newest snapshot only."""
    storages = call.world.storages
    for _, drive in drives_of(snapshot.conf):
        volume = storages.find_volume(drive.file, vm.node)
        if drive.is_cdrom or volume is None:
            continue
        plugin = plugin_of(storages.get(volume.storage))
        if (refusal := plugin.rollback_refused(volume.name, snapshot.name, list(volume.snapshots))) is not None:
            raise refusal


def _restore(call: Call, vm: Vm, snapshot: Snapshot) -> None:
    before = vm.conf
    vm.conf = {key: value for key, value in snapshot.conf.items() if key != "vmstate"}
    vm.conf |= {key: value for key, value in before.items() if key.startswith("unused")}
    kept = {drive.file for _, drive in drives_of(vm.conf)}
    for _, drive in sorted(drives_of(before)):
        # Disks attached since are kept as unused, whoever owns them.
        if not drive.is_cdrom and drive.file not in kept:
            keep_unused(vm, drive.file)
    for key, drive in list(drives_of(vm.conf)):
        volume = call.world.storages.find_volume(drive.file, vm.node)
        if volume is not None and not drive.is_cdrom:
            vm.conf[key] = format_drive(drive.with_options(size=format_size(volume.size_bytes)))
    vm.pending.clear()
    vm.pending_delete.clear()
    vm.parent = snapshot.name
    save(call.world, vm)


def _volumes(call: Call, vm: Vm, snapshot: Snapshot, task: Task, switch: str, *, force: bool) -> list[Volume]:
    """The snapshot's volumes; a missing one ends it, or with `force` is only noted."""
    storages = call.world.storages
    found: list[Volume] = []
    for _, drive in sorted(drives_of(snapshot.conf)):
        if drive.is_cdrom:
            continue
        storage, name = storages.split(drive.file)
        volume = storages.find_volume(drive.file, vm.node)
        if volume is not None and snapshot.name in volume.snapshots:
            found.append(volume)
            continue
        lines, error = plugin_of(storage).snapshot_missing(storage, name, snapshot.name, switch)
        for line in lines:
            task.print(line)
        if not force:
            raise die(error)
        task.print(error)
    return found


async def delete(call: Call) -> Any:
    """Delete; volumes that only the snapshot had become unusedN, whoever owns them."""
    name, force = call.params["snapname"], call.flag("force")

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            snapshot = vm.snapshots.get(name)
            if snapshot is None:
                raise die(f"snapshot '{name}' does not exist")
            check_lock(vm)
            vm.conf["lock"] = "snapshot-delete"
            save(call.world, vm)
            for volume in _volumes(call, vm, snapshot, task, "-d", force=force):
                del volume.snapshots[name]
                plugin = plugin_of(call.world.storages.get(volume.storage))
                for line in plugin.snapshot_lines(volume.name, name, created=False):
                    task.print(line)
            if "vmstate" in snapshot.conf:
                await call.world.storages.free(snapshot.conf["vmstate"], vm.node)
            del vm.conf["lock"]
            _forget(call, vm, snapshot)

    return call.start_task("qmdelsnapshot", str(call.vmid), work).upid


def _forget(call: Call, vm: Vm, snapshot: Snapshot) -> None:
    del vm.snapshots[snapshot.name]
    for other in vm.snapshots.values():
        if other.parent == snapshot.name:
            other.parent = snapshot.parent
    if vm.parent == snapshot.name:
        vm.parent = snapshot.parent
    used = {drive.file for _, drive in drives_of(vm.conf)}
    disks = [drive.file for _, drive in sorted(drives_of(snapshot.conf)) if not drive.is_cdrom]
    # Numbered among the snapshot's own disks; another snapshot that still has the volume does not count.
    for number, volid in enumerate(disks):
        if volid not in used and call.world.storages.find_volume(volid, vm.node) is not None:
            keep_unused(vm, volid, wish=number)
    save(call.world, vm)


async def get_index(call: Call) -> Any:
    """What there is below a snapshot."""
    return [{"cmd": "rollback"}, {"cmd": "config"}]


async def get_config(call: Call) -> Any:
    """A snapshot's configuration."""
    config = snapshot_config(call, call.params["snapname"])
    del config["digest"]
    return config


async def update_config(call: Call) -> Any:
    """Only the description can change."""
    vm = get_vm(call)
    snapshot = vm.snapshots.get(call.params["snapname"])
    if snapshot is None:
        raise die(f"snapshot '{call.params['snapname']}' does not exist")
    snapshot.description = call.params.get("description", snapshot.description)
    save(call.world, vm)


async def get_feature(call: Call) -> Any:
    """Whether snapshot, clone or copy would work, and on which nodes the disks are."""
    vm = get_vm(call)
    feature = call.params["feature"]
    able = can_snapshot(call, vm) if feature == "snapshot" else feature == "copy" or vm.is_template
    shared = all(d.is_cdrom or call.world.storages.split(d.file)[0].shared for _, d in drives_of(vm.conf))
    nodes = [node.name for node in call.world.nodes] if shared else [call.node]
    return {"hasFeature": int(able), "nodes": nodes}


_BASE = "/nodes/{node}/qemu/{vmid}"
ROUTES: Routes = {
    ("GET", f"{_BASE}/snapshot"): get_list,
    ("POST", f"{_BASE}/snapshot"): create,
    ("GET", f"{_BASE}/snapshot/{{snapname}}"): get_index,
    ("DELETE", f"{_BASE}/snapshot/{{snapname}}"): delete,
    ("GET", f"{_BASE}/snapshot/{{snapname}}/config"): get_config,
    ("PUT", f"{_BASE}/snapshot/{{snapname}}/config"): update_config,
    ("POST", f"{_BASE}/snapshot/{{snapname}}/rollback"): rollback,
    ("GET", f"{_BASE}/feature"): get_feature,
}
