"""/cluster/ha: resources, rules (release 9), groups (release 8), status. 9.2 recorded, groups not.

Must not act; what is wished for here is taken up by `hamanager.py`.
"""

import time
from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.clusterapi import node_state
from tests.pvesim.errors import ApiError, die
from tests.pvesim.formats import split_list
from tests.pvesim.ha import Service
from tests.pvesim.hamanager import check_moveable

_NUMBERS = ("max_restart", "max_relocate", "failback")
# A manager that was not heard for longer is taken for dead.
_OLD_AFTER_S = 10.0
_CONTROL = frozenset(["sid", "type", "digest", "delete"])


def _sid(text: str) -> str:
    return text if ":" in text else f"vm:{text}"


def _get_resource(call: Call) -> tuple[str, dict[str, Any]]:
    sid = _sid(call.params["sid"])
    spec = call.world.ha.resources.get(sid)
    if spec is None:
        raise die(f"no such resource '{sid}'")
    return sid, spec


async def get_resources(call: Call) -> Any:
    """What HA manages."""
    return Unordered({"sid": sid, "type": "vm", **spec} for sid, spec in call.world.ha.resources.items())


async def get_resource(call: Call) -> Any:
    """One resource."""
    sid, spec = _get_resource(call)
    return {"sid": sid, "type": "vm", **spec}


def _settings(call: Call) -> dict[str, Any]:
    params = {key: value for key, value in call.params.items() if key not in _CONTROL}
    if "group" in params and params["group"] not in call.world.ha.groups:
        if call.world.release.ha_rules:
            raise die("invalid parameter 'group': ha groups have been migrated to rules")
        raise die(f"HA group '{params['group']}' does not exist")
    return {key: int(value) if key in _NUMBERS else value for key, value in params.items()}


async def add_resource(call: Call) -> Any:
    """Manage a VM."""
    sid = _sid(call.params["sid"])
    vm = call.world.vms.get(int(sid.partition(":")[2]))
    if vm is None:
        raise die(f"resource '{sid}' does not exist in cluster")
    if sid in call.world.ha.resources:
        raise die(f"create resource failed: resource ID '{sid}' already defined")
    call.world.ha.resources[sid] = {"state": "started", **_settings(call)}
    call.world.ha_manager.take_up(sid)


async def update_resource(call: Call) -> Any:
    """Another wish."""
    sid, spec = _get_resource(call)
    for key in split_list(call.params.get("delete", "")):
        spec.pop(key, None)
    spec.update(_settings(call))
    service = call.world.ha.services.get(sid)
    if service is not None and service.crm_state == "error" and spec.get("state") in ("disabled", "stopped"):
        # The way out of an error.
        call.world.ha.services[sid] = Service("stopped")
    call.world.ha_manager.take_up(sid)


async def remove_resource(call: Call) -> Any:
    """No longer manage it; what runs goes on running."""
    sid = _sid(call.params["sid"])
    if call.world.ha.resources.pop(sid, None) is None:
        raise die(f"delete resource failed: no such resource '{sid}'")
    call.world.ha.services.pop(sid, None)


async def migrate(call: Call) -> Any:
    """Ask for a move, live if the VM runs."""
    sid, _ = _get_resource(call)
    answer = check_moveable(call, sid, call.params["node"])
    call.world.ha_manager.move(sid, call.params["node"])
    return answer


def _at(now: int) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(now))


async def get_status(call: Call) -> Any:
    """Quorum, fencing, and once something is managed the master, local managers and services."""
    world, now = call.world, call.world.clock.time()
    quorum = {
        "id": "quorum", "type": "quorum", "node": call.node, "quorate": int(world.quorate),
        "status": "OK" if world.quorate else f"No quorum on node '{call.node}'!",
    }  # fmt: skip
    armed = "armed" if world.ha.resources else "standby"
    watchdog = "CRM watchdog active" if world.ha.resources else "CRM watchdog standby"
    fencing = {"id": "fencing", "type": "fencing", "node": call.node, "status": f"{armed} ({watchdog})"}
    if world.release.armed_state:
        fencing["armed-state"] = armed
    entries: list[dict[str, Any]] = Unordered([quorum, fencing])
    if not world.ha.resources:
        return entries
    master = next((node.name for node in world.nodes if world.nodes.is_online(node)), world.nodes.first.name)
    status = f"{master} (active, {_at(now)})"
    entries.append({"id": "master", "type": "master", "node": master, "status": status, "timestamp": now})
    entries.extend(_local_manager(call, name) for name in [node.name for node in world.nodes])
    for sid, spec in world.ha.resources.items():
        node = world.vms[int(sid.partition(":")[2])].node
        service = world.ha.services.get(sid, Service("queued"))
        entries.append(
            {"failback": 1, **spec, "id": f"service:{sid}", "type": "service", "sid": sid, "node": node,
             "state": service.shown, "crm_state": service.crm_state, "request_state": spec.get("state", "started"),
             "status": f"{sid} ({node}, {service.shown})"}
        )  # fmt: skip
    return entries


def _local_manager(call: Call, name: str) -> dict[str, Any]:
    """A host's own manager: idle without services; of a silent host the last word."""
    world = call.world
    node = world.nodes.find(name)
    silent_s = world.nodes.dark_for(node) if node is not None else 0.0
    heard = world.clock.time() - int(silent_s)
    busy = any(world.vms[int(sid.partition(":")[2])].node == name for sid in world.ha.resources)
    if silent_s > _OLD_AFTER_S:
        what = "old timestamp - dead?, watchdog standby"
    else:
        what = "active, watchdog active" if busy else "idle, watchdog standby"
    status = f"{name} ({what}, {_at(heard)})"
    return {"id": f"lrm:{name}", "type": "lrm", "node": name, "status": status, "timestamp": heard}


async def get_manager_status(call: Call) -> Any:
    """The manager's own file."""
    world = call.world
    quorum = {"node": call.node, "quorate": str(int(world.quorate))}
    states = {node.name: node_state(world, node) for node in world.nodes} if world.ha.ever_active else {}
    return {"manager_status": {"node_status": states}, "quorum": quorum}


def _require_rules(call: Call) -> None:
    if not call.world.release.ha_rules:
        path = call.endpoint.template.replace("{rule}", call.params.get("rule", ""))
        raise ApiError(501, f"Method '{call.endpoint.method} {path}' not implemented", newline=False)


async def get_rules(call: Call) -> Any:
    """Affinity rules."""
    _require_rules(call)
    return Unordered({"rule": name, **spec} for name, spec in call.world.ha.rules.items())


def _get_rule(call: Call) -> dict[str, Any]:
    _require_rules(call)
    spec = call.world.ha.rules.get(call.params["rule"])
    if spec is None:
        raise die(f"no such ha rule '{call.params['rule']}'")
    return spec


async def get_rule(call: Call) -> Any:
    """One rule."""
    return {"rule": call.params["rule"], **_get_rule(call)}


async def add_rule(call: Call) -> Any:
    """A new rule; the resources look for their place again."""
    _require_rules(call)
    name = call.params["rule"]
    if name in call.world.ha.rules:
        raise die(f"create HA rule failed: HA rule '{name}' already exists")
    call.world.ha.rules[name] = {key: value for key, value in call.params.items() if key != "rule"}
    _look_again(call, call.world.ha.rules[name])


async def update_rule(call: Call) -> Any:
    """Another rule of the same name."""
    spec = _get_rule(call)
    for key in split_list(call.params.get("delete", "")):
        spec.pop(key, None)
    spec.update({key: value for key, value in call.params.items() if key not in ("rule", "delete", "digest")})
    _look_again(call, spec)


def _look_again(call: Call, spec: dict[str, Any]) -> None:
    for sid in split_list(str(spec.get("resources", ""))):
        if sid in call.world.ha.resources:
            call.world.ha_manager.take_up(sid)


async def remove_rule(call: Call) -> Any:
    """Forget a rule."""
    _require_rules(call)
    call.world.ha.rules.pop(call.params["rule"], None)


def _require_groups(call: Call, what: str) -> None:
    if call.world.release.ha_rules:
        raise die(f"{what}: ha groups have been migrated to rules")


async def get_groups(call: Call) -> Any:
    """Gone in release 9."""
    _require_groups(call, "cannot index groups")
    return Unordered({"group": name, "type": "group", **spec} for name, spec in call.world.ha.groups.items())


def _get_group(call: Call, what: str) -> dict[str, Any]:
    _require_groups(call, what)
    spec = call.world.ha.groups.get(call.params["group"])
    if spec is None:
        raise die(f"no such ha group '{call.params['group']}'")
    return spec


async def get_group(call: Call) -> Any:
    """One group."""
    return {"group": call.params["group"], "type": "group", **_get_group(call, "cannot read group")}


async def add_group(call: Call) -> Any:
    """Gone in release 9."""
    _require_groups(call, "cannot create group")
    name = call.params["group"]
    if name in call.world.ha.groups:
        raise die(f"create ha group failed: group ID '{name}' already defined")
    call.world.ha.groups[name] = {key: value for key, value in call.params.items() if key not in ("group", "type")}


async def update_group(call: Call) -> Any:
    """Other hosts or priorities."""
    spec = _get_group(call, "cannot update group")
    spec.update({key: value for key, value in call.params.items() if key not in ("group", "delete", "digest")})
    for sid, resource in call.world.ha.resources.items():
        if resource.get("group") == call.params["group"]:
            call.world.ha_manager.take_up(sid)


async def remove_group(call: Call) -> Any:
    """Not while a resource is in it."""
    _get_group(call, "cannot delete group")
    users = [sid for sid, spec in call.world.ha.resources.items() if spec.get("group") == call.params["group"]]
    if users:
        raise die(f"delete group failed: ha group is used by service '{users[0]}'")
    del call.world.ha.groups[call.params["group"]]


_HA = "/cluster/ha"
ROUTES: Routes = {
    ("GET", f"{_HA}/resources"): get_resources,
    ("POST", f"{_HA}/resources"): add_resource,
    ("GET", f"{_HA}/resources/{{sid}}"): get_resource,
    ("PUT", f"{_HA}/resources/{{sid}}"): update_resource,
    ("DELETE", f"{_HA}/resources/{{sid}}"): remove_resource,
    ("POST", f"{_HA}/resources/{{sid}}/migrate"): migrate,
    ("POST", f"{_HA}/resources/{{sid}}/relocate"): migrate,
    ("GET", f"{_HA}/status/current"): get_status,
    ("GET", f"{_HA}/status/manager_status"): get_manager_status,
    ("GET", f"{_HA}/rules"): get_rules,
    ("POST", f"{_HA}/rules"): add_rule,
    ("GET", f"{_HA}/rules/{{rule}}"): get_rule,
    ("PUT", f"{_HA}/rules/{{rule}}"): update_rule,
    ("DELETE", f"{_HA}/rules/{{rule}}"): remove_rule,
    ("GET", f"{_HA}/groups"): get_groups,
    ("POST", f"{_HA}/groups"): add_group,
    ("GET", f"{_HA}/groups/{{group}}"): get_group,
    ("PUT", f"{_HA}/groups/{{group}}"): update_group,
    ("DELETE", f"{_HA}/groups/{{group}}"): remove_group,
}
