"""/nodes: the list, a host's status, version, network. Recorded from 9.2."""

from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.clusterapi import node_entry, version_of


async def get_nodes(call: Call) -> Any:
    """All hosts; without Sys.Audit bare."""
    return Unordered(node_entry(call, node, fingerprint=True) for node in call.world.nodes)


async def get_status(call: Call) -> Any:
    """Load and hardware of one host."""
    node = call.world.nodes.find(call.node) or call.world.nodes.first
    total = node.maxmem_bytes
    return {
        "pveversion": f"pve-manager/{call.world.release.version}/{call.world.release.repoid}",
        "kversion": "Linux 6.17.2-1-pve #1 SMP PREEMPT_DYNAMIC",
        "current-kernel": {"sysname": "Linux", "release": "6.17.2-1-pve", "version": "#1 SMP", "machine": "x86_64"},
        "uptime": int(call.world.clock.monotonic()) + 1000,
        "boot-info": {"mode": "legacy-bios"},
        "memory": {"total": total, "used": total // 4, "free": total * 3 // 4, "available": total * 3 // 4},
        "swap": {"total": 0, "used": 0, "free": 0},
        "rootfs": {"total": node.maxdisk_bytes, "used": node.maxdisk_bytes // 10, "free": node.maxdisk_bytes * 9 // 10,
                   "avail": node.maxdisk_bytes * 8 // 10},
        "cpu": 0.05, "wait": 0, "idle": 0, "loadavg": ["0.10", "0.10", "0.10"],
        "cpuinfo": {"cpus": node.maxcpu, "cores": node.maxcpu, "sockets": 1, "model": "Simulated CPU",
                    "mhz": "2500.000", "hvm": "0", "flags": "fpu", "user_hz": 100,
                    "family": "6", "vendor": "GenuineIntel"},
        "ksm": {"shared": 0},
    }  # fmt: skip


async def get_version(call: Call) -> Any:
    """The host's own version."""
    return version_of(call.world.release)


async def get_network(call: Call) -> Any:
    """Interfaces; a name that begins with vmbr is a bridge."""
    node = call.world.nodes.find(call.node) or call.world.nodes.first
    entries: list[dict[str, Any]] = Unordered()
    for name in node.interfaces:
        entry: dict[str, Any] = {
            "iface": name, "type": "eth", "active": 1, "exists": 1, "method": "manual", "method6": "manual",
            "families": ["inet"],
        }  # fmt: skip
        if name.startswith("vmbr"):
            entry |= {"type": "bridge", "autostart": 1, "bridge_ports": "eth0", "bridge_stp": "off", "bridge_fd": "0"}
        entries.append(entry)
    return entries


ROUTES: Routes = {
    ("GET", "/nodes"): get_nodes,
    ("GET", "/nodes/{node}/status"): get_status,
    ("GET", "/nodes/{node}/version"): get_version,
    ("GET", "/nodes/{node}/network"): get_network,
}
