"""Reading a VM: config, pending, status, lists. Recorded from 9.2."""

from typing import Any

from tests.pvesim.agentapi import has_agent
from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import die
from tests.pvesim.state import Vm
from tests.pvesim.vmconfig import get_vm, shown, shown_pending, typed
from tests.pvesim.vmstatus import vm_summary


async def get_config(call: Call) -> Any:
    """With pending changes merged in unless `current=1`; of a snapshot with `snapshot`."""
    vm = get_vm(call)
    if "snapshot" in call.params:
        return snapshot_config(call, call.params["snapshot"])
    return shown(vm, current=call.flag("current"))


def snapshot_config(call: Call, name: str) -> dict[str, Any]:
    """A snapshot's configuration; 500 for an unknown name."""
    vm = get_vm(call)
    snapshot = vm.snapshots.get(name)
    if snapshot is None:
        raise die(f"snapshot '{name}' does not exist")
    result: dict[str, Any] = {key: typed(key, value) for key, value in snapshot.conf.items()}
    result |= {"snaptime": snapshot.snaptime, "digest": vm.digest}
    if snapshot.description:
        result["description"] = snapshot.description
    if snapshot.parent:
        result["parent"] = snapshot.parent
    return result


async def get_pending(call: Call) -> Any:
    """What runs and what waits."""
    return Unordered(shown_pending(get_vm(call)))


async def get_current(call: Call) -> Any:
    """The host's own view, up to date."""
    vm = get_vm(call)
    world = call.world
    entry = vm_summary(world, vm)
    entry.pop("template", None)
    ha: dict[str, Any] = {"managed": 0}
    if world.ha.is_managed(vm.vmid):
        ha = {"managed": 1, "state": world.ha.state_of(f"vm:{vm.vmid}")}
    entry |= {"qmpstatus": _qmp_status(vm), "ha": ha}
    if "vga" in vm.conf:
        entry["clipboard"] = None
    if vm.is_template:
        entry["template"] = 1
    if has_agent(vm):
        entry["agent"] = 1
    return entry


async def get_list(call: Call) -> Any:
    """VMs on this node that the caller may audit."""
    world = call.world
    entries: list[dict[str, Any]] = Unordered()
    for vm in world.vms.values():
        if vm.node == call.node and call.may(f"/vms/{vm.vmid}", "VM.Audit"):
            entry = vm_summary(world, vm)
            entries.append(entry | ({"qmpstatus": _qmp_status(vm)} if call.flag("full") else {}))
    return entries


def _qmp_status(vm: Vm) -> str:
    if not vm.running:
        return "stopped"
    return "paused" if vm.paused else "running"


ROUTES: Routes = {
    ("GET", "/nodes/{node}/qemu"): get_list,
    ("GET", "/nodes/{node}/qemu/{vmid}/config"): get_config,
    ("GET", "/nodes/{node}/qemu/{vmid}/pending"): get_pending,
    ("GET", "/nodes/{node}/qemu/{vmid}/status/current"): get_current,
}
