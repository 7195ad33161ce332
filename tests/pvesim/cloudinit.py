"""/nodes/{node}/qemu/{vmid}/cloudinit: what the cloud-init drive holds, and making it anew. Recorded from 9.2.

Must not change a configuration. The simulator's drive always holds what the configuration says, so nothing is pending.
"""

import ipaddress
import re
from typing import Any
from urllib.parse import unquote

from tests.pvesim.call import Call, Routes
from tests.pvesim.drives import drives_of
from tests.pvesim.power import check_snippets
from tests.pvesim.state import Vm
from tests.pvesim.vmconfig import get_vm


async def get_pending(call: Call) -> Any:
    """Values that the drive does not hold yet: none."""
    get_vm(call)
    return []


async def regenerate(call: Call) -> Any:
    """Make the drive anew; a missing snippet stops it."""
    vm = get_vm(call)
    if any(drive.is_cloudinit for _, drive in drives_of(vm.conf)):
        check_snippets(call, vm)


async def dump(call: Call) -> Any:
    """One of the drive's files as text."""
    vm = get_vm(call)
    match call.params["type"]:
        case "user":
            return user_data(vm)
        case "network":
            return network_config(call, vm)
        case _:
            return f"instance-id: {vm.digest}\n"


def user_data(vm: Vm) -> str:
    """#cloud-config of a Linux guest."""
    name = vm.conf.get("name", f"VM{vm.vmid}")
    domain = vm.conf.get("searchdomain", "")
    user, password = vm.conf.get("ciuser"), vm.conf.get("cipassword")
    lines = ["#cloud-config", f"hostname: {name.split('.')[0]}", "manage_etc_hosts: true"]
    lines.append(f"fqdn: {name}.{domain}" if domain and "." not in name else f"fqdn: {name}")
    if user is not None:
        lines.append(f"user: {user}")
    if user == "root":
        lines.append("disable_root: False")
    if password is not None:
        lines.append(f"password: {password}")
    keys = [key for key in unquote(vm.conf.get("sshkeys", "")).splitlines() if key.strip()]
    if keys:
        lines += ["ssh_authorized_keys:", *(f"  - {key}" for key in keys)]
    lines += ["chpasswd:", "  expire: False"]
    if user != "root":
        lines += ["users:", "  - default"]
    if vm.conf.get("ciupgrade", "1") == "1":
        lines.append("package_upgrade: true")
    return "\n".join(lines) + "\n"


def network_config(call: Call, vm: Vm) -> str:
    """Network configuration, version 1; without an own name server the host's."""
    lines = ["version: 1", "config:"]
    for index in range(32):
        net = vm.conf.get(f"net{index}")
        if net is None:
            continue
        mac = re.search(r"([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5})", net)
        lines += ["    - type: physical", f"      name: eth{index}"]
        lines.append(f"      mac_address: '{mac[1].lower() if mac else ''}'")
        lines.append("      subnets:")
        lines += _subnets(vm.conf.get(f"ipconfig{index}", ""))
    host = call.world.nodes.find(vm.node)
    servers = vm.conf.get("nameserver", host.dns if host is not None else "").split()
    lines += ["    - type: nameserver", "      address:", *(f"      - '{server}'" for server in servers)]
    if "searchdomain" in vm.conf:
        lines += ["      search:", f"      - '{vm.conf['searchdomain']}'"]
    return "\n".join(lines) + "\n"


def _subnets(ipconfig: str) -> list[str]:
    options = dict(part.split("=", 1) for part in ipconfig.split(",") if "=" in part)
    lines = []
    if options.get("ip") == "dhcp":
        lines.append("      - type: dhcp4")
    elif "ip" in options:
        interface = ipaddress.ip_interface(options["ip"])
        lines += ["      - type: static", f"        address: '{interface.ip}'"]
        lines.append(f"        netmask: '{interface.netmask}'")
        if "gw" in options:
            lines.append(f"        gateway: '{options['gw']}'")
    if options.get("ip6") == "dhcp":
        lines.append("      - type: dhcp6")
    elif options.get("ip6") == "auto":
        lines.append("      - type: ipv6_slaac")
    elif "ip6" in options:
        lines += ["      - type: static6", f"        address: '{options['ip6']}'"]
        if "gw6" in options:
            lines.append(f"        gateway: '{options['gw6']}'")
    return lines


_BASE = "/nodes/{node}/qemu/{vmid}/cloudinit"
ROUTES: Routes = {
    ("GET", _BASE): get_pending,
    ("PUT", _BASE): regenerate,
    ("GET", f"{_BASE}/dump"): dump,
}
