"""vzdump: backups of VMs, which disks they take (`backup=0` leaves one out), the lock meanwhile. Not recorded.

The archive is an entry in a list and holds nothing; there is no restore.
"""

import time
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.drives import drives_of
from tests.pvesim.errors import ApiError, die, param_error
from tests.pvesim.formats import split_list
from tests.pvesim.state import Storage, Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_lock, config_lock, find_vm, save


async def create(call: Call) -> Any:
    """One task for all the VMs that were named and are on this host."""
    world = call.world
    vmids = [int(vmid) for vmid in split_list(call.params.get("vmid", ""))]
    if call.flag("all"):
        excluded = {int(vmid) for vmid in split_list(call.params.get("exclude", ""))}
        vmids = sorted(vm.vmid for vm in world.vms.values() if vm.node == call.node and vm.vmid not in excluded)
    if not vmids:
        raise param_error(vmid="property is missing and it is not optional")
    for vmid in vmids:
        call.require(f"/vms/{vmid}", "VM.Backup")
    storage = _target(call)

    async def work(task: Task) -> None:
        task.print(f"INFO: starting new backup job: vzdump {' '.join(map(str, vmids))} --storage {storage.storage_id}")
        failed = [vmid for vmid in vmids if not await _back_up(call, vmid, storage, task)]
        if failed:
            task.print("INFO: Backup job finished with errors")
            raise die("job errors")
        task.print("INFO: Backup job finished successfully")

    return call.start_task("vzdump", str(vmids[0]) if len(vmids) == 1 else "", work).upid


def _target(call: Call) -> Storage:
    storage_id = call.params.get("storage", "local")
    call.require(f"/storage/{storage_id}", "Datastore.AllocateSpace")
    storage = call.world.storages.get_usable(storage_id, call.node)
    if "backup" not in storage.content:
        raise param_error(
            storage=f"could not get storage information for '{storage_id}': can't use storage '{storage_id}' for "
            "backups - wrong content type\n"
        )
    return storage


async def _back_up(call: Call, vmid: int, storage: Storage, task: Task) -> bool:
    vm = find_vm(call.world, call.node, vmid)
    task.print(f"INFO: Starting Backup of VM {vmid} (qemu)")
    try:
        if vm is None:
            raise die(f"unable to find VM '{vmid}'")
        check_lock(vm)
        await _locked_backup(call, vm, storage, task)
    except ApiError as error:
        task.print(f"ERROR: Backup of VM {vmid} failed - {error.task_text}")
        return False
    return True


async def _locked_backup(call: Call, vm: Vm, storage: Storage, task: Task) -> None:
    world = call.world
    begin = world.clock.time()
    async with config_lock(world, vm):
        vm.conf["lock"] = "backup"
        save(world, vm)
    try:
        size_bytes = 0
        for key, drive in sorted(drives_of(vm.conf)):
            if drive.is_cdrom:
                continue
            if drive.options.get("backup") in ("0", "no", "off"):
                task.print(f"INFO: exclude disk '{key}' '{drive.file}' (backup=no)")
                continue
            task.print(f"INFO: include disk '{key}' '{drive.file}' {drive.options.get('size', '')}".rstrip())
            size_bytes += world.storages.get_for_attach(drive.file, vm.node).size_bytes
        await world.clock.sleep(world.profile.copy_s_per_gib * size_bytes / (1 << 30))
        stamp = time.strftime("%Y_%m_%d-%H_%M_%S", time.gmtime(begin))
        name = f"backup/vzdump-qemu-{vm.vmid}-{stamp}.vma.zst"
        task.print(f"INFO: creating vzdump archive '{world.storages.path_in(storage, name)}'")
        archive = world.storages.put(storage, vm.node, name, size_bytes, "vma.zst")
        archive.owner = vm.vmid
    finally:
        async with config_lock(world, vm):
            vm.conf.pop("lock", None)
            save(world, vm)
    seconds = world.clock.time() - begin
    spent = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    task.print(f"INFO: Finished Backup of VM {vm.vmid} ({spent})")


ROUTES: Routes = {("POST", "/nodes/{node}/vzdump"): create}
