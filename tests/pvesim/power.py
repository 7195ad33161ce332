"""start, stop, shutdown, reset, reboot, suspend, resume. qemu-server 9, recorded.

Must not allocate or free anything.
"""

import re
from typing import Any

from tests.pvesim import hotplug
from tests.pvesim.call import Call, Routes
from tests.pvesim.configwrite import apply_pending
from tests.pvesim.errors import die, param_error
from tests.pvesim.state import Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import check_lock, config_lock, find_vm, get_vm, missing_config


def _refuse_skiplock(call: Call) -> None:
    if call.flag("skiplock") and not call.who.is_root:
        raise param_error(skiplock="Only root may use this option.")


def _find(call: Call) -> Vm:
    vm = find_vm(call.world, call.node, call.vmid)
    if vm is None:
        raise missing_config(call.node, call.vmid)
    return vm


def _ha_request(call: Call, verb: str, state: str) -> Any:
    """HA only notes the wish; the task is done at once, the change comes later."""

    async def note(task: Task) -> None:
        task.print(f"Requesting HA {verb} for VM {call.vmid}")
        call.world.ha.resources[f"vm:{call.vmid}"]["state"] = state
        call.world.ha_manager.take_up(f"vm:{call.vmid}")

    return call.start_task(f"ha{verb}", str(call.vmid), note).upid


async def start(call: Call) -> Any:
    """Pending changes apply, every disk must exist."""
    _refuse_skiplock(call)
    if not call.world.quorate:
        raise die("cluster not ready - no quorum?")
    if call.world.ha.is_managed(call.vmid):
        return _ha_request(call, "start", "started")

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            check_lock(vm)
            if vm.running:
                raise die(f"VM {vm.vmid} already running")
            await start_vm(call, vm)

    return call.start_task("qmstart", str(call.vmid), work).upid


async def start_vm(call: Call, vm: Vm) -> None:
    """The start itself."""
    world = call.world
    if vm.is_template:
        raise die("you can't start a vm if it's a template")
    await apply_pending(call, vm)
    _check_needs(call, vm)
    await world.clock.sleep(world.profile.power_s)
    await hotplug.plug_all(world, vm)
    vm.power, vm.paused, vm.guest_dead = "running", False, False
    vm.started_at, vm.qemu_pid = world.clock.monotonic(), world.tasks.next_pid()


def check_snippets(call: Call, vm: Vm) -> None:
    """500 when a cloud-init snippet that the configuration names is not there."""
    for part in vm.conf.get("cicustom", "").split(","):
        volid = part.partition("=")[2]
        if volid and call.world.storages.find_volume(volid, vm.node) is None:
            raise die(f"volume '{volid}' does not exist")


def _check_needs(call: Call, vm: Vm) -> None:
    """What a start needs besides disks: cloud-init snippets and bridges."""
    check_snippets(call, vm)
    node = call.world.nodes.find(vm.node)
    for key, value in sorted(vm.conf.items()):
        bridge = re.search(r"(?:^|,)bridge=([^,]+)", value) if re.fullmatch(r"net\d+", key) else None
        if bridge and node is not None and bridge[1] not in node.interfaces:
            raise die(f"bridge '{bridge[1]}' does not exist")


async def power_off(call: Call, vm: Vm, *, applies: bool = True) -> None:
    """The process goes, everything is unplugged, and what is pending applies (unless nobody is left to do it)."""
    if applies:
        await call.world.clock.sleep(call.world.profile.power_s)
    await hotplug.unplug_all(call.world, vm)
    vm.power, vm.paused = "stopped", False
    if applies and call.world.quorate:
        await apply_pending(call, vm)


async def stop(call: Call) -> Any:
    """Allowed on a locked VM, harmless on a stopped one."""
    _refuse_skiplock(call)
    if call.world.ha.is_managed(call.vmid):
        return _ha_request(call, "stop", "stopped")

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            if vm.running:
                await power_off(call, vm)

    return call.start_task("qmstop", str(call.vmid), work).upid


async def shutdown(call: Call) -> Any:
    """Asks the guest; a guest that does not listen makes the task fail after the time-out."""
    _refuse_skiplock(call)
    if call.world.ha.is_managed(call.vmid):
        return _ha_request(call, "stop", "stopped")
    timeout_s = float(call.params.get("timeout", "60"))

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            check_lock(vm)
            if not vm.running:
                return
            if not await _guest_listens(call, vm, timeout_s) and not call.flag("forceStop"):
                raise die("VM quit/powerdown failed - got timeout")
            await power_off(call, vm)

    return call.start_task("qmshutdown", str(call.vmid), work).upid


async def _guest_listens(call: Call, vm: Vm, timeout_s: float) -> bool:
    """Whether the guest obeys; one that does not is waited for."""
    if not (vm.paused or vm.guest_dead):
        return True
    await call.world.clock.sleep(timeout_s)
    return False


def _running(call: Call) -> Vm:
    vm = get_vm(call)
    if not vm.running:
        raise die(f"VM {vm.vmid} not running")
    return vm


async def reboot(call: Call) -> Any:
    """Shutdown and start; a guest that does not listen is not stopped."""
    _running(call)
    timeout_s = float(call.params.get("timeout", "60"))

    async def work(task: Task) -> None:
        vm = _find(call)
        async with config_lock(call.world, vm):
            check_lock(vm)
            if not await _guest_listens(call, vm, timeout_s):
                raise die("VM quit/powerdown failed - got timeout")
            await power_off(call, vm)
            await start_vm(call, vm)

    return call.start_task("qmreboot", str(call.vmid), work).upid


async def reset(call: Call) -> Any:
    """The guest starts anew, its devices stay."""
    _running(call)

    async def work(task: Task) -> None:
        vm = _find(call)
        check_lock(vm)
        vm.guest_dead = False
        await hotplug.guest_wakes(call.world, vm)

    return call.start_task("qmreset", str(call.vmid), work).upid


async def suspend(call: Call) -> Any:
    """Pause."""
    _running(call)

    async def work(task: Task) -> None:
        vm = _find(call)
        check_lock(vm)
        vm.paused = True

    return call.start_task("qmpause", str(call.vmid), work).upid


async def resume(call: Call) -> Any:
    """Unpause; the guest does what it was asked for meanwhile."""
    get_vm(call)

    async def work(task: Task) -> None:
        vm = _find(call)
        check_lock(vm)
        if not vm.running:
            raise die(f"VM {vm.vmid} not running")
        vm.paused = False
        await hotplug.guest_wakes(call.world, vm)

    return call.start_task("qmresume", str(call.vmid), work).upid


_BASE = "/nodes/{node}/qemu/{vmid}/status"
ROUTES: Routes = {
    ("POST", f"{_BASE}/start"): start,
    ("POST", f"{_BASE}/stop"): stop,
    ("POST", f"{_BASE}/shutdown"): shutdown,
    ("POST", f"{_BASE}/reboot"): reboot,
    ("POST", f"{_BASE}/reset"): reset,
    ("POST", f"{_BASE}/suspend"): suspend,
    ("POST", f"{_BASE}/resume"): resume,
}
