"""The guest agent: what a guest would tell. Recorded from 9.2; what it tells is in the world file.

Must not know how a guest is addressed; `GuestAgent` holds the answers.
"""

from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import die
from tests.pvesim.state import Vm
from tests.pvesim.vmconfig import get_vm

AGENT_TIMEOUT_S = 3.0


def has_agent(vm: Vm) -> bool:
    """Whether the configuration turns the agent on."""
    return vm.conf.get("agent", "0").split(",")[0] in ("1", "enabled=1")


async def _reach(call: Call) -> Vm:
    """The VM with a guest that answers; the texts in Proxmox VE's order."""
    vm = get_vm(call)
    if not has_agent(vm):
        raise die("No QEMU guest agent configured")
    if not vm.running:
        raise die(f"VM {vm.vmid} is not running")
    node = call.world.nodes.find(vm.node)
    await call.world.clock.sleep(node.agents_slow_s if node else 0)
    if not vm.agent.running or vm.paused or vm.guest_dead:
        await call.world.clock.sleep(AGENT_TIMEOUT_S)
        raise die("QEMU guest agent is not running")
    return vm


async def ping(call: Call) -> Any:
    """Is it there?"""
    await _reach(call)
    return {"result": {}}


async def interfaces(call: Call) -> Any:
    """Network interfaces with addresses, in the guest's order."""
    vm = await _reach(call)
    return {"result": vm.agent.interfaces}


async def osinfo(call: Call) -> Any:
    """Operating system."""
    vm = await _reach(call)
    return {"result": vm.agent.osinfo}


async def hostname(call: Call) -> Any:
    """Host name."""
    vm = await _reach(call)
    return {"result": {"host-name": vm.agent.hostname or vm.conf.get("name", "")}}


async def fsinfo(call: Call) -> Any:
    """File systems: none to show."""
    await _reach(call)
    return {"result": []}


async def info(call: Call) -> Any:
    """Version and commands."""
    await _reach(call)
    names = ("guest-ping", "guest-info", "guest-network-get-interfaces", "guest-get-osinfo", "guest-get-host-name")
    commands = [{"name": name, "enabled": True, "success-response": True} for name in names]
    return {"result": {"version": "10.0.13", "supported_commands": commands}}


_BASE = "/nodes/{node}/qemu/{vmid}/agent"
ROUTES: Routes = {
    ("POST", f"{_BASE}/ping"): ping,
    ("GET", f"{_BASE}/network-get-interfaces"): interfaces,
    ("GET", f"{_BASE}/get-osinfo"): osinfo,
    ("GET", f"{_BASE}/get-host-name"): hostname,
    ("GET", f"{_BASE}/get-fsinfo"): fsinfo,
    ("GET", f"{_BASE}/info"): info,
}
