"""Copying a VM's disks: clone (full and linked), template, move_disk to a storage or to another VM.

qemu-server 9, recorded. Must not say how one volume is copied; `disks.py` does.
"""

import re
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.configchange import new_mac
from tests.pvesim.diskcopy import copy_volume
from tests.pvesim.drives import Drive, drives_of, format_drive, is_drive_key, parse_drive
from tests.pvesim.errors import ApiError, denied, die, param_error
from tests.pvesim.lifecycle import new_uuid
from tests.pvesim.state import Vm, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import (
    boot_order,
    check_digest,
    check_lock,
    config_lock,
    find_vm,
    get_vm,
    keep_unused,
    save,
)


async def clone(call: Call) -> Any:
    """Full, or linked from a template."""
    world = call.world
    pool = call.params.get("pool")
    if pool is not None:
        if pool not in world.access.pools:
            raise ApiError(403, f"Permission check failed (pool '{pool}' does not exist)")
        if not call.may(f"/pool/{pool}", "VM.Allocate"):
            raise denied(f"/pool/{pool}", "VM.Allocate")
    target_node = call.params.get("target", call.node)
    if world.nodes.find(target_node) is None:
        raise die(f"no such cluster node '{target_node}'")
    if "storage" in call.params:
        world.storages.get_usable(call.params["storage"], call.node)
    vm = find_vm(world, call.node, call.vmid)
    if vm is None:
        raise die(f"unable to find configuration file for VM {call.vmid} on node '{call.node}'")
    check_lock(vm)
    snapshot = call.params.get("snapname")
    if snapshot is not None and snapshot not in vm.snapshots:
        raise die(f"snapshot '{snapshot}' does not exist")
    conf = vm.snapshots[snapshot].conf if snapshot is not None else vm.conf
    full = call.flag("full") if "full" in call.params else not vm.is_template
    newid = int(call.params["newid"])
    _check_clone_storage(call, conf)
    if newid in world.vms:
        raise die(f"unable to create VM {newid}: config file already exists")
    if not full:
        _check_linkable(call, conf, from_snapshot=snapshot is not None)
    _check_reachable(call, conf, target_node)
    new = Vm(newid, call.node, {"lock": "clone", "description": " qmclone temporary file"})
    world.vms[newid] = new

    async def work(task: Task) -> None:
        task.print(f"creating a clone of VM {vm.vmid} with ID {newid}")
        try:
            await _clone(call, vm, conf, new, task, full=full)
        except ApiError as error:
            for _, drive in list(drives_of(new.conf)):
                if world.storages.owner_of(drive.file) == newid:
                    await world.storages.free(drive.file, call.node)
            del world.vms[newid]
            raise die(f"clone failed: {error.task_text}") from error
        new.node = target_node
        if pool:
            world.access.vm_pool[newid] = new.pool = pool

    return call.start_task("qmclone", str(vm.vmid), work).upid


def _check_reachable(call: Call, conf: dict[str, str], target_node: str) -> None:
    """A clone for another host needs every disk where both hosts see it."""
    if target_node == call.node:
        return
    storages = call.world.storages
    wish = call.params.get("storage")
    if wish is not None and not storages.get(wish).shared:
        raise die(f"can't clone to non-shared storage '{wish}'")
    disks = [drive.file for _, drive in drives_of(conf) if not drive.is_cdrom or drive.is_cloudinit]
    if not all(storages.split(volid)[0].shared for volid in disks):
        raise die(f"can't clone VM to node '{target_node}' (VM uses local storage)")


def _check_clone_storage(call: Call, conf: dict[str, str]) -> None:
    for _, drive in drives_of(conf):
        if drive.is_cdrom and not drive.is_cloudinit:
            continue
        storage_id = call.params.get("storage") or drive.file.partition(":")[0]
        call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")


def _check_linkable(call: Call, conf: dict[str, str], *, from_snapshot: bool) -> None:
    storages = call.world.storages
    for key, drive in sorted(drives_of(conf)):
        if drive.is_cdrom or (not from_snapshot and storages.parse(drive.file).is_base):
            continue
        if not from_snapshot:
            raise die(f"Linked clone feature is not supported for '{drive.file}' ({key})")
        if not plugin_of(storages.split(drive.file)[0]).clones_snapshots:
            raise die(f"Linked clone feature is not supported for a snapshot of '{drive.file}' ({key})")


async def _clone(call: Call, vm: Vm, conf: dict[str, str], new: Vm, task: Task, *, full: bool) -> None:
    world = call.world
    skipped = ("template", "lock", "parent", "vmstate", "snaptime")
    result = {k: v for k, v in conf.items() if k not in skipped and not k.startswith("unused")}
    result = {key: new_mac(call, value) if re.fullmatch(r"net\d+", key) else value for key, value in result.items()}
    result["name"] = call.params.get("name", f"Copy-of-VM-{vm.conf.get('name', vm.vmid)}")
    if "description" in call.params:
        result["description"] = call.params["description"]
    result["smbios1"], result["vmgenid"] = f"uuid={new_uuid(call)}", new_uuid(call)
    for key, drive in sorted(drives_of(conf)):
        if drive.is_cdrom and not drive.is_cloudinit:
            continue
        source = world.storages.get_for_attach(drive.file, vm.node)
        if full or drive.is_cloudinit:
            target_storage = world.storages.get(call.params.get("storage", source.storage))
            target = await copy_volume(
                call, source, new.vmid, target_storage, call.params.get("format"), vm.node, task, key
            )
        else:
            target = await _link(call, key, source, new.vmid, task, vm.node)
        result[key] = format_drive(Drive(target.volid, drive.options))
        # From the first whole disk on the configuration is there, still locked.
        new.conf = {**result, "lock": "clone"}
    new.conf = result
    save(world, new)


async def _link(call: Call, key: str, base: Volume, vmid: int, task: Task, node: str) -> Volume:
    storages = call.world.storages
    storage = storages.get(base.storage)
    plugin = plugin_of(storage)
    fmt = "qcow2" if "qcow2" in plugin.formats_of(storage) and "/" in base.name else plugin.default_format
    task.print(f"create linked clone of drive {key} ({base.volid})")
    if not plugin.parse(storage, base.name).is_base:
        # A clone of a snapshot stands alone by name.
        volume = await storages.allocate_next(storage, node, vmid, base.size_bytes, fmt)
        await storages.copy(base, volume)
        return volume
    volume = await storages.allocate_next(storage, node, vmid, base.size_bytes, fmt, base=base.name)
    volume.parent = f"../{base.name}" if "/" in base.name else base.name
    own = volume.name.removeprefix(f"{base.name}/")
    if "/" in own:
        file_name = own.rsplit("/", 1)[-1]
        path = plugin.path(storage, own)
        task.print(f"clone {base.name}: images, {file_name}, {vmid} to {file_name} (base={volume.parent})")
        details = "cluster_size=131072 extended_l2=on preallocation=off compression_type=zlib"
        backing = f"backing_file={volume.parent} backing_fmt={base.format} lazy_refcounts=off refcount_bits=16"
        task.print(f"Formatting '{path}', fmt=qcow2 {details} size={base.size_bytes} {backing}")
    return volume


async def template(call: Call) -> Any:
    """Disks become base volumes."""
    vm = get_vm(call)
    check_lock(vm)
    if vm.is_template:
        raise die("you can't convert a template to a template")
    if vm.snapshots:
        raise die("unable to create template, because VM contains snapshots")
    if vm.running:
        raise die("you can't convert a VM to template if VM is running")

    async def work(task: Task) -> None:
        storages = call.world.storages
        for key, drive in sorted(drives_of(vm.conf)):
            if drive.is_cdrom or storages.owner_of(drive.file) != vm.vmid:
                continue
            volume = storages.get_for_attach(drive.file, vm.node)
            await storages.rename(volume, vm.node, volume.name.replace(f"vm-{vm.vmid}-", f"base-{vm.vmid}-"))
            vm.conf[key] = format_drive(Drive(volume.volid, drive.options))
        vm.conf["template"] = "1"
        save(call.world, vm)

    return call.start_task("qmtemplate", str(vm.vmid), work).upid


async def move_disk(call: Call) -> Any:
    """To another storage (a copy), or to another VM on the same node (a rename)."""
    params = call.params
    if "target-vmid" in params and "storage" in params:
        both = "either set 'storage' or 'target-vmid', but not both"
        raise param_error(target_vmid=both, storage=both)
    if "target-vmid" not in params and "storage" not in params:
        neither = "both 'storage' and 'target-vmid' missing, either needs to be set"
        raise param_error(target_vmid=neither, storage=neither)
    return await (_reassign(call) if "target-vmid" in params else _move(call))


async def _move(call: Call) -> Any:
    world = call.world
    key, storage_id = call.params["disk"], call.params["storage"]
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
    vm = get_vm(call)
    check_digest(vm, call.params.get("digest"))
    check_lock(vm)
    if key not in vm.conf:
        raise die(f"disk '{key}' does not exist")
    drive = parse_drive(vm.conf[key])
    if drive.is_cdrom:
        raise die("you can't move a cdrom")
    fmt = call.params.get("format")
    volume = world.storages.get_for_attach(drive.file, vm.node)
    if volume.storage == storage_id and fmt in (None, volume.format):
        raise die("you can't move to the same storage with same format")
    target_storage = world.storages.get_usable(storage_id, vm.node)

    async def work(task: Task) -> None:
        async with config_lock(call.world, vm):
            check_lock(vm)
            way = f"from current storage '{volume.storage}' to target storage '{storage_id}'"
            task.print(f"copying volume '{drive.file}' {way}")
            target = await copy_volume(call, volume, vm.vmid, target_storage, fmt, vm.node, task, key, "move")
            vm.conf[key] = format_drive(Drive(target.volid, drive.options)) if is_drive_key(key) else target.volid
            if key in vm.plugged:
                vm.plugged[key].volid = target.volid
            if call.flag("delete"):
                task.print(f"removing source volume '{drive.file}' after successful copy")
                await world.storages.free(drive.file, vm.node)
            else:
                name = _keep_and_name(vm, drive.file)
                task.print(f"adding source volume '{drive.file}' as '{name}' to config")
            save(world, vm)

    return call.start_task("qmmove", str(vm.vmid), work).upid


def _keep_and_name(vm: Vm, volid: str) -> str:
    keep_unused(vm, volid)
    return next(k for k, v in vm.conf.items() if k.startswith("unused") and parse_drive(v).file == volid)


async def _reassign(call: Call) -> Any:
    world = call.world
    key, target_vmid = call.params["disk"], int(call.params["target-vmid"])
    target_key = call.params.get("target-disk", key)
    call.require(f"/vms/{target_vmid}", "VM.Config.Disk")
    if target_vmid == call.vmid:
        raise param_error(target_vmid="must be different than source VMID to reassign disk")
    target = world.vms.get(target_vmid)
    if target is None:
        raise die(f"could not find target VM {target_vmid}")
    vm = get_vm(call)
    if target.node != vm.node:
        raise die(f"Both VMs need to be on the same node ({vm.node} != {target.node})")
    for one, name in ((vm, "digest"), (target, "target-digest")):
        if call.params.get(name, one.digest) != one.digest:
            raise die(f"VM {one.vmid}: detected modified configuration - file changed by other user? Try again.")
    check_lock(vm)
    if key not in vm.conf:
        raise die(f"Disk '{key}' for VM '{vm.vmid}' does not exist")
    if target_key in target.conf and not is_drive_key(target_key):
        raise die(f"Target disk key '{target_key}' is already in use for VM '{target_vmid}'")

    async def work(task: Task) -> None:
        async with config_lock(call.world, vm), config_lock(call.world, target):
            await _hand_over(call, vm, key, target, target_key, task)

    return call.start_task("qmmove", f"{vm.vmid}-{key}>{target_vmid}-{target_key}", work).upid


async def _hand_over(call: Call, vm: Vm, key: str, target: Vm, target_key: str, task: Task) -> None:
    storages = call.world.storages
    task.print(f"reassign disk '{key}' from VM '{vm.vmid}' as '{target_key}' to VM '{target.vmid}'")
    drive = parse_drive(vm.conf[key])
    volume = storages.get_for_attach(drive.file, vm.node)
    storage = storages.get(volume.storage)
    # The name follows the new owner: whatever it was called before is lost.
    former, name = volume.name, storages.next_disk_name(storage, vm.node, target.vmid, volume.format)
    await storages.rename(volume, vm.node, name)
    for line in plugin_of(storage).rename_lines(storage, former, name):
        task.print(line)
    order = boot_order(vm.conf)
    if key in order:
        task.print(f"removing disk '{key}' from boot order config")
        rest = [device for device in order if device != key]
        vm.conf["boot"] = f"order={';'.join(rest)}" if rest else " "
    task.print(f"removing disk '{key}' from VM '{vm.vmid}' config")
    del vm.conf[key]
    save(call.world, vm)
    if not is_drive_key(target_key):
        target.conf[target_key] = volume.volid
        save(call.world, target)
        return
    stored = format_drive(Drive(volume.volid, drive.options))
    task.print(f"update VM {target.vmid}: -{target_key} {stored}")
    if target_key in target.conf:
        replaced = parse_drive(target.conf[target_key]).file
        if storages.owner_of(replaced) == target.vmid:
            keep_unused(target, replaced)
    target.conf[target_key] = stored
    save(call.world, target)


_BASE = "/nodes/{node}/qemu/{vmid}"
ROUTES: Routes = {
    ("POST", f"{_BASE}/clone"): clone,
    ("POST", f"{_BASE}/template"): template,
    ("POST", f"{_BASE}/move_disk"): move_disk,
}
