"""/cluster/ha: resources, rules, status. Requests are only noted; fencing and fail-over are not simulated yet."""

from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import die


def _sid(text: str) -> str:
    return text if ":" in text else f"vm:{text}"


async def get_resources(call: Call) -> Any:
    """What HA manages."""
    return Unordered({"sid": sid, "type": "vm", **spec} for sid, spec in call.world.ha.resources.items())


async def add_resource(call: Call) -> Any:
    """Manage a VM."""
    sid = _sid(call.params["sid"])
    vm = call.world.vms.get(int(sid.partition(":")[2]))
    if vm is None:
        raise die(f"resource '{sid}' does not exist in cluster")
    if sid in call.world.ha.resources:
        raise die(f"create resource failed: resource ID '{sid}' already defined")
    spec: dict[str, Any] = {"state": call.params.get("state", "started")}
    for key in ("max_restart", "max_relocate"):
        if key in call.params:
            spec[key] = int(call.params[key])
    if "comment" in call.params:
        spec["comment"] = call.params["comment"]
    call.world.ha.resources[sid] = spec


async def remove_resource(call: Call) -> Any:
    """No longer manage it."""
    sid = _sid(call.params["sid"])
    if call.world.ha.resources.pop(sid, None) is None:
        raise die(f"delete resource failed: no such resource '{sid}'")


async def get_status(call: Call) -> Any:
    """Quorum, fencing, and once something is managed the master, local managers and services."""
    world = call.world
    quorum = {
        "id": "quorum", "type": "quorum", "node": call.node, "quorate": int(world.quorate),
        "status": "OK" if world.quorate else f"No quorum on node '{call.node}'!",
    }  # fmt: skip
    armed = "armed" if world.ha.resources else "standby"
    watchdog = "CRM watchdog active" if world.ha.resources else "CRM watchdog standby"
    fencing = {
        "id": "fencing", "type": "fencing", "node": call.node, "status": f"{armed} ({watchdog})", "armed-state": armed,
    }  # fmt: skip
    entries: list[dict[str, Any]] = Unordered([quorum, fencing])
    if not world.ha.resources:
        return entries
    now = world.clock.time()
    master = world.nodes.first.name
    entries.append({"id": "master", "type": "master", "node": master, "status": f"{master} (active)", "timestamp": now})
    entries.extend(
        {"id": f"lrm:{n.name}", "type": "lrm", "node": n.name, "status": f"{n.name} (idle)", "timestamp": now}
        for n in world.nodes
    )
    for sid, spec in world.ha.resources.items():
        node = world.vms[int(sid.partition(":")[2])].node
        state = spec["state"]
        entries.append(
            {"id": f"service:{sid}", "type": "service", "sid": sid, "node": node, "state": state, "crm_state": state,
             "request_state": state, "status": f"{sid} ({node}, {state})", "failback": 1, **spec}
        )  # fmt: skip
    return entries


async def get_manager_status(call: Call) -> Any:
    """The manager's own file."""
    quorum = {"node": call.node, "quorate": str(int(call.world.quorate))}
    return {"manager_status": {"node_status": {}}, "quorum": quorum}


async def get_rules(call: Call) -> Any:
    """Affinity rules."""
    return Unordered({"rule": name, **spec} for name, spec in call.world.ha.rules.items())


async def add_rule(call: Call) -> Any:
    """A new rule."""
    name = call.params["rule"]
    if name in call.world.ha.rules:
        raise die(f"create HA rule failed: HA rule '{name}' already exists")
    call.world.ha.rules[name] = {key: value for key, value in call.params.items() if key != "rule"}


async def remove_rule(call: Call) -> Any:
    """Forget a rule."""
    call.world.ha.rules.pop(call.params["rule"], None)


async def get_groups(call: Call) -> Any:
    """Gone in release 9."""
    raise die("cannot index groups: ha groups have been migrated to rules")


async def add_group(call: Call) -> Any:
    """Gone in release 9."""
    raise die("cannot create group: ha groups have been migrated to rules")


ROUTES: Routes = {
    ("GET", "/cluster/ha/resources"): get_resources,
    ("POST", "/cluster/ha/resources"): add_resource,
    ("DELETE", "/cluster/ha/resources/{sid}"): remove_resource,
    ("GET", "/cluster/ha/status/current"): get_status,
    ("GET", "/cluster/ha/status/manager_status"): get_manager_status,
    ("GET", "/cluster/ha/rules"): get_rules,
    ("POST", "/cluster/ha/rules"): add_rule,
    ("DELETE", "/cluster/ha/rules/{rule}"): remove_rule,
    ("GET", "/cluster/ha/groups"): get_groups,
    ("POST", "/cluster/ha/groups"): add_group,
}
