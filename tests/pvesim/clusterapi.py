"""/version, /cluster/...: resources, status, nextid, tasks, options. Recorded from 9.2.

The lists filter by permission and answer 200; they never refuse.
"""

from typing import TYPE_CHECKING, Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import ApiError, param_error
from tests.pvesim.nodes import UNKNOWN_AFTER_S
from tests.pvesim.release import Release
from tests.pvesim.state import Node, Storage, Vm

if TYPE_CHECKING:
    from tests.pvesim.world import World


def version_of(release: Release) -> dict[str, str]:
    """As /version shows it."""
    return {"version": release.version, "release": release.name, "repoid": release.repoid}


async def get_version(call: Call) -> Any:
    """Any valid login."""
    return version_of(call.world.release)


def node_entry(call: Call, node: Node, *, fingerprint: bool) -> dict[str, Any]:
    """A host in /nodes (with `fingerprint`) or /cluster/resources; bare without Sys.Audit."""
    online = call.world.nodes.is_online(node)
    entry: dict[str, Any] = {
        "id": f"node/{node.name}", "node": node.name, "type": "node", "status": "online" if online else "offline",
    }  # fmt: skip
    if online:
        entry["level"] = ""
    if fingerprint:
        entry["ssl_fingerprint"] = ":".join(f"{(node.node_id * 37 + i) % 256:02X}" for i in range(32))
    elif online:
        entry["cgroup-mode"] = 2
    if call.world.ha.ever_active and not fingerprint:
        entry["hastate"] = node_state(call.world, node)
    if call.may(f"/nodes/{node.name}", "Sys.Audit") and online:
        entry |= {
            "cpu": 0.05, "maxcpu": node.maxcpu, "mem": node.maxmem_bytes // 4, "maxmem": node.maxmem_bytes,
            "disk": node.maxdisk_bytes // 10, "maxdisk": node.maxdisk_bytes,
            "uptime": int(call.world.clock.monotonic()) + 1000,
        }  # fmt: skip
    return entry


def node_state(world: "World", node: Node) -> str:
    """A host as the HA manager sees it; a manager with nothing to do does not look."""
    if not world.ha.resources or world.nodes.is_online(node):
        return "online"
    vms = [vm for vm in world.vms.values() if vm.node == node.name and world.ha.is_managed(vm.vmid)]
    fenced = any(world.ha.state_of(f"vm:{vm.vmid}") == "fence" for vm in vms)
    return "fence" if fenced else "unknown"


def vm_resource(call: Call, vm: Vm, *, pooled: bool = True) -> dict[str, Any]:
    """A VM in /cluster/resources and among a pool's members (there without its pool)."""
    entry: dict[str, Any] = {"id": f"qemu/{vm.vmid}", "vmid": vm.vmid, "node": vm.node, "type": "qemu"}
    heard = call.world.broadcasts.vm_entry(vm)
    entry["status"] = heard["status"]
    if vm.pool and pooled and call.may(f"/pool/{vm.pool}", "Pool.Audit"):
        entry["pool"] = vm.pool
    if call.world.ha.is_managed(vm.vmid):
        entry["hastate"] = call.world.ha.state_of(f"vm:{vm.vmid}")
    # Out of the configuration itself, so these never lag.
    entry |= {key: vm.file[0][key] for key in ("tags", "lock") if vm.file[0].get(key)}
    if heard["status"] == "unknown":
        return entry
    entry |= {
        key: heard[key]
        for key in ("name", "cpu", "maxmem", "mem", "memhost", "maxdisk", "disk", "netin", "netout", "uptime")
        if key in heard
    }
    return entry | {"maxcpu": heard["cpus"], "template": heard.get("template", 0), "diskread": 0, "diskwrite": 0}


def storage_resource(call: Call, storage: Storage, node: Node) -> dict[str, Any]:
    """A storage on a host in /cluster/resources."""
    heard = call.world.broadcasts.storage_entry(storage, node)
    return {
        "id": f"storage/{node.name}/{storage.storage_id}", "storage": storage.storage_id, "node": node.name,
        "type": "storage", "plugintype": storage.type, "shared": int(storage.shared),
        "content": shuffled_content(call, storage), "maxdisk": 0, "disk": 0, **heard,
    }  # fmt: skip


def shuffled_content(call: Call, storage: Storage) -> str:
    """Content types in the random order of a Perl hash."""
    content = list(storage.content)
    call.world.rng.shuffle(content)
    return ",".join(content)


async def get_resources(call: Call) -> Any:
    """Everything the caller may see; node and vmid are right at once, status and name lag."""
    wanted = call.params.get("type")
    world = call.world
    entries: list[dict[str, Any]] = Unordered()
    if wanted in (None, "vm"):
        entries.extend(vm_resource(call, vm) for vm in world.vms.values() if call.may(f"/vms/{vm.vmid}", "VM.Audit"))
    if wanted in (None, "node"):
        entries.extend(node_entry(call, node, fingerprint=False) for node in world.nodes)
    if wanted in (None, "storage"):
        for storage in world.storages.definitions.values():
            if storage.disabled or not call.may(f"/storage/{storage.storage_id}", "Datastore.Audit"):
                continue
            entries.extend(storage_resource(call, storage, n) for n in world.nodes if storage.is_on(n.name))
    if wanted is None and call.may_any("/sdn/zones/localnetwork", "SDN.Audit", "SDN.Use"):
        entries.extend(_network_entry(n) for n in world.nodes if world.nodes.dark_for(n) < UNKNOWN_AFTER_S)
    return entries


def _network_entry(node: Node) -> dict[str, Any]:
    return {
        "id": f"network/{node.name}/zone/localnetwork", "network": "localnetwork", "network-type": "zone",
        "node": node.name, "status": "ok", "type": "network",
    }  # fmt: skip


async def get_status(call: Call) -> Any:
    """Hosts, and the cluster's own entry if there is one."""
    world = call.world
    clustered = bool(world.cluster_name)
    entries: list[dict[str, Any]] = Unordered()
    if clustered:
        nodes = list(world.nodes)
        entries.append(
            {
                "type": "cluster", "id": "cluster", "name": world.cluster_name, "nodes": len(nodes),
                "quorate": int(world.quorate), "version": len(nodes),
            }
        )  # fmt: skip
    entries.extend(
        {
            "type": "node", "id": f"node/{node.name}", "name": node.name, "ip": node.ip, "level": "",
            "nodeid": node.node_id if clustered else 0, "online": int(world.nodes.is_online(node)),
            "local": int(node.name == call.node),
        }
        for node in world.nodes
    )  # fmt: skip
    return entries


async def get_nextid(call: Call) -> Any:
    """A free id as a string; sees VMs that the caller may not."""
    if "vmid" in call.params:
        if call.vmid in call.world.vms:
            raise param_error(vmid=f"VM {call.vmid} already exists")
        return call.params["vmid"]
    vmid = 100
    while vmid in call.world.vms:
        vmid += 1
    return str(vmid)


async def get_tasks(call: Call) -> Any:
    """Recent tasks of the whole cluster; without Sys.Audit only the user's own, and a token is no user."""
    audit = call.may("/", "Sys.Audit")
    entries: list[dict[str, Any]] = []
    for task in reversed(list(call.world.tasks.by_upid.values())):
        if audit or task.who.userid == call.who.auth_id:
            entry = task_entry(task)
            del entry["pid"], entry["pstart"]
            # The newest was just written and is still a number; the others were read back as text.
            entries.append(entry | {"saved": "1" if entries else 1})
    return entries


def task_entry(task: Any) -> dict[str, Any]:
    """A task in a list."""
    entry = {
        "upid": task.upid, "node": task.node, "pid": task.pid, "pstart": task.pstart, "starttime": task.starttime,
        "type": task.type, "id": task.id, "user": task.who.userid,
    }  # fmt: skip
    if task.who.token:
        entry["tokenid"] = task.who.token
    if task.exitstatus is not None:
        entry |= {"endtime": task.endtime, "status": task.exitstatus}
    return entry


async def get_options(call: Call) -> Any:
    """datacenter.cfg; without Sys.Audit only the tag settings."""
    if not call.may("/", "Sys.Audit"):
        return {"allowed-tags": []}
    return {"allowed-tags": [], "description": "", **call.world.options}


async def get_config_join(call: Call) -> Any:
    """Only a cluster can be joined."""
    if not call.world.cluster_name:
        raise ApiError(424, "node is not in a cluster, no join info available!", newline=False)
    return {
        "preferred_node": call.node, "config_digest": "0" * 40,
        "totem": {"cluster_name": call.world.cluster_name, "version": "2", "config_version": "3", "secauth": "on",
                  "ip_version": "ipv4-6", "link_mode": "passive", "interface": {"0": {"linknumber": "0"}}},
        "nodelist": [
            {"name": n.name, "nodeid": str(n.node_id), "pve_addr": n.ip, "ring0_addr": n.ip, "quorum_votes": "1",
             "pve_fp": ":".join(["AB"] * 32)} for n in call.world.nodes
        ],
    }  # fmt: skip


ROUTES: Routes = {
    ("GET", "/version"): get_version,
    ("GET", "/cluster/resources"): get_resources,
    ("GET", "/cluster/status"): get_status,
    ("GET", "/cluster/nextid"): get_nextid,
    ("GET", "/cluster/tasks"): get_tasks,
    ("GET", "/cluster/options"): get_options,
    ("GET", "/cluster/config/join"): get_config_join,
}
