"""Moving VMs between hosts: preconditions, offline and live, and what stands in the way. qemu-server 9, recorded.

Own local disks go along (their texts were not recorded); foreign ones stand in the way. Not simulated: conflicts during
a live migration.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.drives import drives_of
from tests.pvesim.errors import die, param_error
from tests.pvesim.state import Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_lock, config_lock, get_vm, save
from tests.pvesim.vmstatus import memory_mib


def _local_disks(call: Call, vm: Vm) -> list[tuple[str, str, int]]:
    """(key, volid, size) of the disks that the target host would not see; those that wait to be plugged count."""
    storages = call.world.storages
    found = []
    for key, drive in sorted([*drives_of(vm.conf), *drives_of(vm.pending)], key=lambda item: item[0]):
        if drive.file in ("none", "cdrom"):
            continue
        volume = storages.find_volume(drive.file, vm.node)
        if not storages.split(drive.file)[0].shared:
            found.append((key, drive.file, volume.size_bytes if volume else 0))
    return found


async def get_preconditions(call: Call) -> Any:
    """Where it could go, and what is local."""
    vm = get_vm(call)
    others = [node.name for node in call.world.nodes if node.name != vm.node and call.world.nodes.is_online(node)]
    return {
        "running": int(vm.running), "allowed_nodes": others, "not_allowed_nodes": {name: {} for name in others},
        "local_disks": [
            {"volid": volid, "size": size, "drivename": key, "is_unused": 0, "is_attached": 1, "is_tpmstate": 0,
             "is_vmstate": 0, "is_cloudinit": 0, "cdrom": 0, "replicate": 1, "shared": 0}
            for key, volid, size in _local_disks(call, vm)
        ],
        "local_resources": [], "mapped-resources": [], "mapped-resource-info": {}, "has-dbus-vmstate": 1,
    }  # fmt: skip


async def migrate(call: Call) -> Any:
    """A task, or a request to HA."""
    world = call.world
    target = call.params["target"]
    if target == call.node:
        raise param_error(target="target is local node.")
    node = world.nodes.find(target)
    if node is None:
        raise die(f"no such cluster node '{target}'")
    vm = get_vm(call)
    check_lock(vm)
    if vm.running and not call.flag("online"):
        raise die("can't migrate running VM without --online")
    if world.ha.is_managed(vm.vmid):

        async def request(task: Task) -> None:
            task.print(f"Requesting HA migration for VM {vm.vmid} to node {target}")
            world.ha_manager.move(f"vm:{vm.vmid}", target)

        return call.start_task("hamigrate", str(vm.vmid), request).upid

    async def work(task: Task) -> None:
        async with config_lock(call.world, vm):
            check_lock(vm)
            await migrate_vm(call, vm, target, node.ip, task)

    task = call.start_task("qmigrate", str(vm.vmid), work)
    task.killed_text = "migration problems"
    return task.upid


def _transfer_s(call: Call, vm: Vm) -> float:
    profile = call.world.profile
    if not vm.running or not profile.power_s:
        return profile.power_s
    memory_kib = memory_mib(vm) << 10
    return max(10 * profile.power_s, memory_kib / int(call.params.get("bwlimit", memory_kib)))


async def _send_disks(
    call: Call, vm: Vm, local: list[tuple[str, str, int]], target: str, say: Callable[[str], None]
) -> None:
    """The VM's own local disks go along; one that a replication job keeps over there already is quick."""
    storages = call.world.storages
    for _, volid, _ in local:
        storages.get_usable(volid.partition(":")[0], target)
    for _, volid, size in local:
        volume, there = storages.find_volume(volid, vm.node), storages.find_volume(volid, target)
        if volume is None:
            raise die(f"volume '{volid}' does not exist")
        say(f"copying local disk image: '{volid}'")
        if there is None:
            await call.world.clock.sleep(call.world.profile.copy_s_per_gib * size / (1 << 30))
            storages.send(volume, target)
            continue
        # What is here now becomes the copy, and the other way round.
        storages.replicate(volume, target)
        current = storages.find_volume(volid, target)
        if current is not None:
            current.holders = volume.holders
            volume.holders = set()


async def migrate_vm(call: Call, vm: Vm, target: str, target_ip: str, task: Task) -> None:
    world = call.world
    start = world.clock.time()

    def say(text: str) -> None:
        stamp = datetime.fromtimestamp(world.clock.time(), UTC).strftime("%Y-%m-%d %H:%M:%S")
        task.print(f"{stamp} {text}")

    def duration() -> str:
        seconds = max(1, world.clock.time() - start)
        return f"(duration {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d})"

    say(f"starting migration of VM {vm.vmid} to node '{target}' ({target_ip})")
    vm.conf["lock"] = "migrate"
    save(world, vm)
    try:
        local = _local_disks(call, vm)
        for _, volid, _ in local:
            say(f"found local disk '{volid}' (attached)")
        foreign = [volid for _, volid, _ in local if world.storages.owner_of(volid) != vm.vmid]
        for volid in foreign:
            owner = world.storages.owner_of(volid)
            say(f"can't migrate local disk '{volid}': owned by other VM (owner = VM {owner})")
        live = vm.running and call.params.get("with-local-disks", "0") != "1"
        if live and local and not foreign:
            say("can't live migrate attached local disks without with-local-disks option")
        if foreign or (live and local):
            problem = "Problem found while scanning volumes - can't migrate VM - check log"
            say(f"ERROR: {problem}")
            say("aborting phase 1 - cleanup resources")
            say(f"ERROR: migration aborted {duration()}: {problem}")
            raise die("migration aborted")
        await _send_disks(call, vm, local, target, say)
        await world.clock.sleep(_transfer_s(call, vm))
        vm.node = target
        # The configuration has moved, still locked while the source is cleaned up.
        save(world, vm)
        await world.clock.sleep(world.profile.power_s)
        say(f"migration finished successfully {duration()}")
    finally:
        vm.conf.pop("lock", None)
        save(world, vm)


ROUTES: Routes = {
    ("GET", "/nodes/{node}/qemu/{vmid}/migrate"): get_preconditions,
    ("POST", "/nodes/{node}/qemu/{vmid}/migrate"): migrate,
}
