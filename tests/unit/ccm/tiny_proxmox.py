"""A Proxmox VE that knows four calls: what the cloud-controller-manager asks, with the rules that matter to it.

For unit tests of the rules of matching, on virtual time and in microseconds; whole services are tested on tests.pvesim.
Lists are filtered by VM.Audit; a config is only on its VM's host; `nextid` sees every VM.
"""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx


@dataclass
class TinyVm:
    name: str | None
    node: str = "pve1"
    uuid: str = ""
    sku: str = ""
    status: str = "running"
    uptime_s: int = 100
    type: str = "qemu"
    template: bool = False
    audit: bool = True
    listed_on: str = ""
    """Another host than the true one: the list of a cluster in which it was moved a moment ago."""
    config: dict[str, Any] = field(default_factory=lambda: {"cores": 4, "memory": "8192"})


class TinyProxmox(httpx.AsyncBaseTransport):
    """One region. `down`: nothing can be sent. `dark`: hosts that do not answer for their VMs."""

    def __init__(self, vms: dict[int, TinyVm]) -> None:
        self.vms = vms
        self.down = False
        self.dark: set[str] = set()
        self.privileges: dict[str, dict[str, int]] = {"/": {"VM.Audit": 1}}
        self.log: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = unquote(request.url.path).removeprefix("/api2/json")
        if self.down:
            raise httpx.ConnectError("All connection attempts failed")
        self.log.append(path)
        parts = path.strip("/").split("/")
        if path == "/cluster/resources":
            return _data([self._entry(vmid, vm) for vmid, vm in self.vms.items() if vm.audit] + self._nodes())
        if path == "/nodes":
            return _data(self._nodes())
        if path == "/cluster/status":
            return _refused(403, "Permission check failed (/, Sys.Audit)", request)
        if path == "/access/permissions":
            return _data(self.privileges)
        if path == "/cluster/nextid":
            vmid = int(request.url.params["vmid"])
            if vmid in self.vms:
                errors = {"vmid": f"VM {vmid} already exists"}
                return httpx.Response(400, json={"data": None, "errors": errors}, request=request)
            return _data(str(vmid))
        if parts[0] == "nodes" and parts[2] == "qemu" and parts[4] == "config":
            return self._config(parts[1], int(parts[3]), request)
        raise AssertionError(f"not a call of the cloud-controller-manager: {path}")

    @property
    def configs_read(self) -> int:
        return sum(path.endswith("/config") for path in self.log)

    def _entry(self, vmid: int, vm: TinyVm) -> dict[str, Any]:
        entry = {
            "id": f"{vm.type}/{vmid}", "type": vm.type, "vmid": vmid, "node": vm.listed_on or vm.node,
            "status": vm.status, "uptime": vm.uptime_s, "template": int(vm.template),
        }  # fmt: skip
        return entry if vm.name is None else entry | {"name": vm.name}

    def _nodes(self) -> list[dict[str, Any]]:
        names = {"pve1", "pve2", "pve3"}
        return [
            {"type": "node", "node": name, "status": "offline" if name in self.dark else "online"}
            for name in sorted(names)
        ]

    def _config(self, node: str, vmid: int, request: httpx.Request) -> httpx.Response:
        vm = self.vms.get(vmid)
        if node in self.dark:
            return _refused(595, "No route to host", request)
        if vm is not None and not vm.audit:
            return _refused(403, f"Permission check failed (/vms/{vmid}, VM.Audit)", request)
        if vm is None or vm.node != node:
            return _refused(500, f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist", request)
        assert request.url.params["current"] == "1"
        smbios = ",".join(f"{key}={value}" for key, value in (("uuid", vm.uuid), ("sku", vm.sku)) if value)
        config = vm.config | ({"name": vm.name} if vm.name else {}) | ({"smbios1": smbios} if smbios else {})
        return _data(config)


def _data(value: Any) -> httpx.Response:
    return httpx.Response(200, content=json.dumps({"data": value}))


def _refused(status: int, reason: str, request: httpx.Request) -> httpx.Response:
    return httpx.Response(
        status, content=b'{"data":null}', request=request, extensions={"reason_phrase": reason.encode()}
    )
