"""PUT resize: always a UPID for a well-formed request; what is wrong stands in the task. qemu-server 9, recorded."""

import re
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.drives import format_drive, format_size, parse_drive, parse_size
from tests.pvesim.errors import die, param_error
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_digest, check_lock, config_lock, find_vm, missing_config, save


async def resize(call: Call) -> Any:
    """Grow a disk."""
    if call.flag("skiplock") and not call.who.is_root:
        raise param_error(skiplock="Only root may use this option.")

    async def work(task: Task) -> None:
        await _resize(call, task)

    return call.start_task("resize", str(call.vmid), work).upid


async def _resize(call: Call, task: Task) -> None:
    world = call.world
    vm = find_vm(world, call.node, call.vmid)
    if vm is None:
        raise missing_config(call.node, call.vmid)
    if vm.config_lock.locked():
        task.print("trying to acquire lock...")
    async with config_lock(call.world, vm):
        check_digest(vm, call.params.get("digest"))
        if not call.flag("skiplock"):
            check_lock(vm)
        key = call.params["disk"]
        if key not in vm.conf:
            raise die(f"disk '{key}' does not exist")
        drive = parse_drive(vm.conf[key])
        if drive.is_cdrom:
            raise die("you can't resize a cdrom")
        volume = world.storages.get_for_attach(drive.file, vm.node)
        match = re.fullmatch(r"(\+)?(\d+(?:\.\d+)?[KMGT]?)", call.params["size"])
        asked = parse_size(match[2]) if match else 0
        wanted = volume.size_bytes + asked if match and match[1] else asked
        if wanted < volume.size_bytes:
            raise die("shrinking disks is not supported")
        if wanted == volume.size_bytes:
            return
        await world.clock.sleep(world.profile.resize_s)
        storage = world.storages.get(volume.storage)
        plugin = plugin_of(storage)
        if (refusal := plugin.resize_refused(storage, volume.name, bool(volume.snapshots))) is not None:
            raise refusal
        await world.storages.grow(volume, wanted)
        live = vm.running
        for line in plugin.resize_lines(storage, volume.name, wanted, volume.size_bytes, live=live):
            task.print(line)
        # The image has grown by now; without quorum the configuration keeps the old size.
        vm.conf[key] = format_drive(drive.with_options(size=format_size(wanted)))
        save(world, vm)


ROUTES: Routes = {("PUT", "/nodes/{node}/qemu/{vmid}/resize"): resize}
