"""PUT and POST of a VM's configuration: checks, pending section, applying it. qemu-server 9, recorded.

The order of the steps is the real one and matters: what is refused before the lock leaves nothing behind, what fails
inside leaves pending entries of the keys that came before it.
"""

import re
from collections.abc import Mapping
from typing import Any

from tests.pvesim import hotplug
from tests.pvesim.call import Call, Routes
from tests.pvesim.configchange import Change, parse_change
from tests.pvesim.configrights import check_drive_rights
from tests.pvesim.disks import create_disk
from tests.pvesim.drives import Drive, is_drive_key, parse_drive
from tests.pvesim.errors import ApiError, die, param_errors
from tests.pvesim.state import Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import (
    add_unused,
    boot_order,
    check_digest,
    check_lock,
    config_lock,
    find_vm,
    get_vm,
    is_volume_used,
    missing_config,
    save,
)


async def put(call: Call) -> Any:
    """Synchronous; answers null."""
    change = parse_change(call)
    vm = get_vm(call)
    _check(vm, change)
    async with config_lock(call.world, vm):
        _recheck(call, vm, change)
        await _apply(call, vm, change, None)


async def post(call: Call) -> Any:
    """Forks; null or 500 with the task's text if it ends within background_delay, else the UPID."""
    change = parse_change(call)
    vm = get_vm(call)
    _check(vm, change)

    async def work(task: Task) -> None:
        if vm.config_lock.locked():
            task.print("trying to acquire lock...")
        async with config_lock(call.world, vm):
            _recheck(call, vm, change)
            task.print(f"update VM {vm.vmid}:{change.line}")
            await _apply(call, vm, change, task)

    task = call.start_task("qmconfig", str(vm.vmid), work)
    if "background_delay" not in call.params:
        return task.upid
    if not await call.world.tasks.wait(task, float(call.params["background_delay"])):
        return task.upid
    if task.failed:
        raise die(f"failed to update VM {vm.vmid}: {task.exitstatus}")
    return None


def _recheck(call: Call, vm: Vm, change: Change) -> None:
    # It may have moved or gone while we waited for the lock.
    if find_vm(call.world, call.node, vm.vmid) is not vm:
        raise missing_config(call.node, vm.vmid)
    _check(vm, change)


def _check(vm: Vm, change: Change) -> None:
    check_digest(vm, change.digest)
    if not change.skiplock:
        check_lock(vm)
    for key in change.reverts:
        if key in vm.conf:
            change.sets[key] = vm.conf[key]
        elif key in vm.pending and key not in change.deletes:
            change.deletes.append(key)


async def _apply(call: Call, vm: Vm, change: Change, task: Task | None) -> None:
    world = call.world
    await world.clock.sleep(world.profile.config_write_s)
    for key in change.deletes:
        await _pend_delete(call, vm, change, key, task)
    # A Perl hash has no order.
    keys = list(change.sets)
    world.rng.shuffle(keys)
    for key in keys:
        await _pend_set(call, vm, change, key, change.sets[key], task)
    cleanup_pending(vm)
    save(world, vm)
    if not vm.pending and not vm.pending_delete:
        return
    errors: dict[str, str] = {}
    if vm.running:
        await _hotplug_pending(call, vm, change, errors)
    else:
        await apply_pending(call, vm, errors)
    if errors:
        raise param_errors(errors)


async def _pend_delete(call: Call, vm: Vm, change: Change, key: str, task: Task | None) -> None:
    world = call.world
    value = vm.conf.get(key, vm.pending.get(key))
    if value is None:
        if task is not None:
            task.print(f"cannot delete '{key}' - not set in current configuration!")
        return
    change.modified.add(key)
    was_pending = vm.pending.pop(key, None)
    order = boot_order(vm.conf)
    if was_pending is None and key in order:
        rest = [device for device in order if device != key]
        vm.pending["boot"] = f"order={';'.join(rest)}" if rest else " "
        change.modified.add("boot")
    if key.startswith("unused"):
        drive = parse_drive(value)
        check_protection(vm, f"can't remove unused disk '{drive.file}'")
        call.require(f"/vms/{vm.vmid}", "VM.Config.Disk")
        await deallocate(call, vm, key, drive, task)
        del vm.conf[key]
    elif is_drive_key(key):
        check_protection(vm, f"can't remove drive '{key}'")
        check_drive_rights(call, vm.vmid, parse_drive(value))
        if was_pending is not None:
            add_unused(world, vm, parse_drive(was_pending).file)
        vm.pending_delete[key] = change.force
    else:
        vm.pending_delete[key] = change.force
    save(world, vm)


def check_protection(vm: Vm, what: str) -> None:
    """protection=1."""
    if vm.conf.get("protection") == "1":
        raise die(f"{what} - protection mode enabled")


async def deallocate(call: Call, vm: Vm, key: str, drive: Drive, task: Task | None) -> None:
    """Free a volume that the VM owns; a foreign one is left alone, silently."""
    if drive.is_cdrom or call.world.storages.owner_of(drive.file) != vm.vmid:
        return
    storage_id = drive.file.partition(":")[0]
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
    if is_volume_used(vm, drive.file, key):
        raise die(f"unable to delete '{drive.file}' - volume is still in use (snapshot?)")
    lines = await call.world.storages.free(drive.file, vm.node)
    if task is not None:
        for line in lines:
            task.print(line)


async def _pend_set(call: Call, vm: Vm, change: Change, key: str, value: str, task: Task | None) -> None:
    change.modified.add(key)
    if vm.pending.get(key) == value:
        return
    if is_drive_key(key):
        if key in vm.conf:
            check_drive_rights(call, vm.vmid, parse_drive(vm.conf[key]))
        check_drive_rights(call, vm.vmid, parse_drive(value))
        if key in vm.pending:
            add_unused(call.world, vm, parse_drive(vm.pending[key]).file)
        vm.pending[key] = await create_disk(call, vm, key, parse_drive(value), task)
    elif key == "boot":
        for device in boot_order({"boot": value}):
            if device not in vm.conf and device not in vm.pending:
                raise die(f"invalid bootorder: device '{device}' does not exist'")
        vm.pending[key] = value
    elif (why := _only_root(call, vm, key, value)) is not None:
        raise why
    else:
        vm.pending[key] = value
    vm.pending_delete.pop(key, None)
    save(call.world, vm)


def _only_root(call: Call, vm: Vm, key: str, value: str) -> ApiError | None:
    if call.who.is_root:
        return None
    if re.fullmatch(r"serial\d+", key):
        if value == "socket":
            call.require(f"/vms/{vm.vmid}", "VM.Config.HWType")
            return None
        return die(f"only root can modify '{key}' config for real devices")
    if re.fullmatch(r"usb\d+", key):
        if value.startswith(("spice", "host=spice")):
            call.require(f"/vms/{vm.vmid}", "VM.Config.HWType")
            return None
        return die(f"only root can modify '{key}' config for real devices")
    if re.fullmatch(r"hostpci\d+", key):
        return die(f"only root can set '{key}' config for non-mapped devices")
    if key == "tags":
        call.require(f"/vms/{vm.vmid}", "VM.Config.Options")
    return None


def cleanup_pending(vm: Vm) -> None:
    """What changes nothing is not pending."""
    for key in [k for k, v in vm.pending.items() if vm.conf.get(k) == v]:
        del vm.pending[key]
    for key in [k for k in vm.pending_delete if k not in vm.conf]:
        del vm.pending_delete[key]


async def _hotplug_pending(call: Call, vm: Vm, change: Change, errors: dict[str, str]) -> None:
    world = call.world
    for key in [k for k in vm.pending if hotplug.is_fast(k)]:
        vm.conf[key] = vm.pending.pop(key)
    save(world, vm)
    for key in sorted(k for k in vm.pending_delete if k in change.modified):
        try:
            await hotplug.hot_delete(world, vm, key)
            await _let_go(call, vm, key, force=vm.pending_delete[key])
        except hotplug.NotHotpluggable:
            continue
        except ApiError as error:
            errors[key] = hotplug.describe(error)
            continue
        vm.conf.pop(key, None)
        vm.pending_delete.pop(key, None)
    for key in [k for k in vm.pending if k in change.modified]:
        try:
            await hotplug.hot_change(world, vm, key, vm.pending[key])
        except hotplug.NotHotpluggable:
            continue
        except ApiError as error:
            errors[key] = hotplug.describe(error)
            continue
        vm.conf[key] = vm.pending.pop(key)
    save(world, vm)


async def _let_go(call: Call, vm: Vm, key: str, *, force: bool) -> None:
    """A detached drive: freed with force, else kept as unusedN if it is the VM's own."""
    if not is_drive_key(key) or key not in vm.conf:
        return
    drive = parse_drive(vm.conf[key])
    if force:
        call.require(f"/vms/{vm.vmid}", "VM.Config.Disk")
        await deallocate(call, vm, key, drive, None)
    elif drive.is_cloudinit:
        await call.world.storages.free(drive.file, vm.node)
    elif not drive.is_cdrom:
        add_unused(call.world, vm, drive.file)


async def apply_pending(call: Call, vm: Vm, errors: dict[str, str] | None = None) -> None:
    """A stopped VM takes everything that is pending, whoever asked for it."""
    for key, force in sorted(vm.pending_delete.items()):
        try:
            await _let_go(call, vm, key, force=force)
        except ApiError as error:
            if errors is not None:
                errors[key] = f"unable to apply pending change {key} : {error.task_text}\n"
            continue
        vm.conf.pop(key, None)
        vm.pending_delete.pop(key, None)
    cleanup_pending(vm)
    for key, value in list(vm.pending.items()):
        if is_drive_key(key) and key in vm.conf and not _same_file(vm.conf, key, value):
            add_unused(call.world, vm, parse_drive(vm.conf[key]).file)
        vm.conf[key] = value
        del vm.pending[key]
    save(call.world, vm)


def _same_file(conf: Mapping[str, str], key: str, value: str) -> bool:
    return parse_drive(conf[key]).file == parse_drive(value).file


async def unlink(call: Call) -> Any:
    """PUT unlink: a delete by another name."""
    call.params["delete"] = call.params.pop("idlist")
    return await put(call)


ROUTES: Routes = {
    ("PUT", "/nodes/{node}/qemu/{vmid}/config"): put,
    ("POST", "/nodes/{node}/qemu/{vmid}/config"): post,
    ("PUT", "/nodes/{node}/qemu/{vmid}/unlink"): unlink,
}
