"""Calls that list what is below a path, and small ones that need no state of their own (9.2, recorded)."""

from collections.abc import Sequence
from typing import Any

from tests.pvesim.call import Call, Handler, Routes
from tests.pvesim.errors import die

_CLUSTER = (
    "acme", "backup", "backup-info", "bulk-action", "ceph", "config", "firewall", "ha", "jobs", "log", "mapping",
    "metrics", "notifications", "nextid", "options", "qemu", "replication", "resources", "status", "tasks", "sdn",
)  # fmt: skip
_VM = (
    "config", "cloudinit", "pending", "status", "unlink", "vncproxy", "termproxy", "migrate", "resize", "move", "rrd",
    "rrddata", "monitor", "agent", "snapshot", "spiceproxy", "sendkey", "firewall", "mtunnel", "remote_migrate",
)  # fmt: skip
_STORAGE = (
    "content", "download-url", "file-restore", "import-metadata", "identity", "oci-registry-pull", "prunebackups",
    "rrd", "rrddata", "status", "upload",
)  # fmt: skip
_POWER = ("current", "start", "stop", "reset", "shutdown", "suspend", "reboot")
_CONFIG = ("nodes", "totem", "join", "qdevice", "apiversion")


def _index(key: str, names: Sequence[str]) -> Handler:
    async def handler(call: Call) -> Any:
        return [{key: name} for name in names]

    return handler


async def _empty(call: Call) -> Any:
    return []


def _audited(data: Any, path: str = "/nodes/{node}", *privileges: str) -> Handler:
    async def handler(call: Call) -> Any:
        call.require_any(path.replace("{node}", call.node), *(privileges or ("Sys.Audit",)))
        return data

    return handler


async def _cluster_nodes(call: Call) -> Any:
    return [
        {"node": n.name, "name": n.name, "nodeid": str(n.node_id), "quorum_votes": "1", "ring0_addr": n.ip}
        for n in call.world.nodes
    ]


async def _remove_node(call: Call) -> Any:
    """A host leaves for good. Its directory stays, and with it the ids of its guests."""
    name = call.params["node"]
    if call.world.nodes.find(name) is None:
        raise die(f"Node/IP: {name} is not a known host of the cluster.")
    if name == call.node:
        raise die("Cannot delete myself from cluster!")
    call.world.nodes.remove(name)


async def _totem(call: Call) -> Any:
    return {
        "cluster_name": call.world.cluster_name, "config_version": "3", "interface": {"0": {"linknumber": "0"}},
        "ip_version": "ipv4-6", "link_mode": "passive", "secauth": "on", "version": "2",
    }  # fmt: skip


async def _dns(call: Call) -> Any:
    """The host's own name server."""
    call.require(f"/nodes/{call.node}", "Sys.Audit")
    host = call.world.nodes.find(call.node)
    return {"dns1": host.dns} if host is not None else {}


ROUTES: Routes = {
    ("GET", "/cluster"): _index("name", _CLUSTER),
    ("GET", "/cluster/config"): _index("name", _CONFIG),
    ("GET", "/cluster/config/nodes"): _cluster_nodes,
    ("DELETE", "/cluster/config/nodes/{node}"): _remove_node,
    ("GET", "/cluster/config/totem"): _totem,
    ("GET", "/cluster/backup"): _audited([], "/"),
    ("GET", "/cluster/mapping/dir"): _empty,
    ("GET", "/cluster/mapping/pci"): _empty,
    ("GET", "/cluster/sdn/vnets"): _empty,
    ("GET", "/cluster/sdn/zones"): _empty,
    ("GET", "/cluster/firewall/options"): _audited({"digest": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, "/"),
    ("GET", "/nodes/{node}/lxc"): _empty,
    ("GET", "/nodes/{node}/sdn/zones"): _empty,
    ("GET", "/nodes/{node}/services"): _audited([]),
    ("GET", "/nodes/{node}/config"): _audited({}, "/"),
    ("GET", "/nodes/{node}/dns"): _dns,
    ("GET", "/nodes/{node}/qemu/{vmid}"): _index("subdir", _VM),
    ("GET", "/nodes/{node}/qemu/{vmid}/status"): _index("subdir", _POWER),
    ("GET", "/nodes/{node}/storage/{storage}"): _index("subdir", _STORAGE),
}
