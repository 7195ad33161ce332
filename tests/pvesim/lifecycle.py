"""Creating and destroying VMs. qemu-server 9, recorded."""

import re
import uuid
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.configchange import normalize_values
from tests.pvesim.configrights import check_key_rights, check_set_rights, check_storage_rights
from tests.pvesim.configwrite import check_protection
from tests.pvesim.disks import create_disk
from tests.pvesim.drives import drives_of, is_drive_key, parse_drive
from tests.pvesim.errors import ApiError, denied, die, param_error
from tests.pvesim.power import start_vm
from tests.pvesim.state import Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_lock, config_lock, find_vm, get_vm, missing_config, save

QEMU_VERSION = "10.0.13"
_NOT_CONFIG = frozenset(
    ["node", "vmid", "start", "pool", "storage", "force", "unique", "archive", "bwlimit", "live-restore", "ha-managed",
     "import-working-storage"]
)  # fmt: skip
_DRIVE_ORDER = ("ide", "scsi", "virtio", "sata", "efidisk", "tpmstate")


async def create(call: Call) -> Any:
    """Checks, then a task that allocates the disks and writes the configuration."""
    params = call.params
    vmid = int(params["vmid"])
    pool = params.get("pool")
    if pool is not None and pool not in call.world.access.pools:
        raise ApiError(403, f"Permission check failed (pool '{pool}' does not exist)")
    if not call.may(f"/vms/{vmid}", "VM.Allocate") and not (pool and call.may(f"/pool/{pool}", "VM.Allocate")):
        raise denied()
    if not call.world.quorate:
        raise die("cluster not ready - no quorum?")
    sets = {key: value for key, value in params.items() if key not in _NOT_CONFIG}
    check_storage_rights(call, None, sets)
    check_key_rights(call, vmid, sets)
    normalize_values(call, sets)
    check_set_rights(call, sets)
    if call.flag("start"):
        call.require(f"/vms/{vmid}", "VM.PowerMgmt")
    _check_free(call, vmid)
    vm = Vm(vmid, call.node, {"lock": "create"})
    call.world.vms[vmid] = vm

    async def work(task: Task) -> None:
        await _create(call, vm, sets, task)
        if pool:
            call.world.access.vm_pool[vmid] = vm.pool = pool
        if call.flag("start"):
            await start_vm(call, vm)

    return call.start_task("qmcreate", str(vmid), work).upid


def _check_free(call: Call, vmid: int) -> None:
    existing = call.world.vms.get(vmid)
    if existing is not None:
        raise die(f"unable to create VM {vmid} - VM {vmid} already exists on node '{existing.node}'")


async def _create(call: Call, vm: Vm, sets: dict[str, str], task: Task) -> None:
    made: list[str] = []
    try:
        for key in sorted((k for k in sets if is_drive_key(k)), key=_drive_rank):
            before = parse_drive(sets[key])
            sets[key] = await create_disk(call, vm, key, before, task)
            if before.file != parse_drive(sets[key]).file:
                made.append(parse_drive(sets[key]).file)
    except ApiError as error:
        for volid in made:
            await call.world.storages.free(volid, vm.node)
        del call.world.vms[vm.vmid]
        raise die(f"unable to create VM {vm.vmid} - {error.task_text}") from error
    vm.conf = sets
    complete_config(call, vm)
    save(call.world, vm)


def _drive_rank(key: str) -> tuple[int, int]:
    kind = key.rstrip("0123456789")
    return _DRIVE_ORDER.index(kind), int(key.removeprefix(kind) or "0")


def complete_config(call: Call, vm: Vm) -> None:
    """What a new VM gets by itself: UUIDs, creation note, boot order."""
    vm.conf.setdefault("smbios1", f"uuid={new_uuid(call)}")
    vm.conf.setdefault("vmgenid", new_uuid(call))
    vm.conf["meta"] = f"creation-qemu={QEMU_VERSION},ctime={call.world.clock.time()}"
    if "boot" not in vm.conf:
        devices = _default_boot(vm)
        vm.conf["boot"] = f"order={';'.join(devices)}" if devices else " "


def new_uuid(call: Call) -> str:
    """A reproducible random UUID."""
    return str(uuid.UUID(int=call.world.rng.getrandbits(128), version=4))


def _default_boot(vm: Vm) -> list[str]:
    keys = sorted((key for key, _ in drives_of(vm.conf)), key=_drive_rank)
    disks = [key for key in keys if not parse_drive(vm.conf[key]).is_cdrom]
    cdroms = [key for key in keys if parse_drive(vm.conf[key]).is_cdrom]
    nets = sorted(key for key in vm.conf if re.fullmatch(r"net\d+", key))
    return disks[:1] + cdroms[:1] + nets[:1]


async def destroy(call: Call) -> Any:
    """Checks at once; a lock, and disks that cannot go, show in the task."""
    if call.flag("skiplock") and not call.who.is_root:
        raise param_error(skiplock="Only root may use this option.")
    vm = get_vm(call)
    check_protection(vm, f"can't remove VM {vm.vmid}")
    if call.world.ha.is_managed(vm.vmid) and not call.flag("purge"):
        raise die(f"unable to remove VM {vm.vmid} - used in HA resources and purge parameter not set.")
    _check_stopped(vm)

    async def work(task: Task) -> None:
        found = find_vm(call.world, call.node, call.vmid)
        if found is None:
            raise missing_config(call.node, call.vmid)
        async with config_lock(call.world, found):
            if not call.flag("skiplock"):
                check_lock(found)
            _check_stopped(found)
            await _destroy(call, found, task)

    return call.start_task("qmdestroy", str(vm.vmid), work).upid


def _check_stopped(vm: Vm) -> None:
    if vm.running:
        raise die(f"VM {vm.vmid} is running - destroy failed")


async def _destroy(call: Call, vm: Vm, task: Task) -> None:
    world = call.world
    own = _own_volumes(call, vm)
    for volid in own:
        if world.storages.has_clones(volid, vm.node):
            raise die(f"base volume '{volid}' is still in use by linked cloned")
    for volid in own:
        for line in await world.storages.free(volid, vm.node):
            task.print(line)
    if call.flag("destroy-unreferenced-disks"):
        await _free_unreferenced(call, vm, task)
    if call.flag("purge"):
        task.print(f"purging VM {vm.vmid} from related configurations..")
        if world.ha.resources.pop(f"vm:{vm.vmid}", None) is not None:
            task.print(f"NOTE: removed VM {vm.vmid} from HA resource configuration.")
    del world.vms[vm.vmid]
    world.access.forget_vm(vm.vmid)


def _own_volumes(call: Call, vm: Vm) -> list[str]:
    """Volumes in the configuration, unused entries and snapshots included, that the VM owns; each once."""
    found: dict[str, None] = {}
    for conf in (vm.conf, vm.pending, *(s.conf for s in vm.snapshots.values())):
        for key, value in sorted(conf.items()):
            if not is_drive_key(key) and not key.startswith("unused") and key != "vmstate":
                continue
            volid = parse_drive(value).file
            if ":" in volid and call.world.storages.owner_of(volid) == vm.vmid:
                found[volid] = None
    return list(found)


async def _free_unreferenced(call: Call, vm: Vm, task: Task) -> None:
    storages = call.world.storages
    scanned = [one for one in storages.definitions.values() if not one.disabled and one.is_on(vm.node)]
    # Every storage is activated before any is looked at: one that cannot be ends it half-way.
    for storage in scanned:
        storages.activate(storage.storage_id, vm.node)
    for storage in scanned:
        for volume in [v for v in storages.on(storage, vm.node) if v.owner == vm.vmid and v.content == "images"]:
            for line in await storages.free(volume.volid, vm.node):
                task.print(line)


ROUTES: Routes = {
    ("POST", "/nodes/{node}/qemu"): create,
    ("DELETE", "/nodes/{node}/qemu/{vmid}"): destroy,
}
