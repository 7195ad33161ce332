"""A small Proxmox VE cluster with state: configs with waiting changes, digests, tasks. For pvekit's unit tests.

Small on purpose; tests.pvesim is the true one. What it does follows the recorded answers of Proxmox VE 9.2.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

import httpx

DIGEST_TEXT = "checksum mismatch (file change by other user?)"


@dataclass
class FakeVm:
    node: str
    name: str = "worker"
    running: bool = True
    uptime_s: int = 1000
    type: str = "qemu"
    current: dict[str, str] = field(default_factory=lambda: {"scsihw": "virtio-scsi-single", "name": "worker"})
    pending: dict[str, str] = field(default_factory=dict)
    deletes: set[str] = field(default_factory=set)
    snapshots: dict[str, dict[str, str]] = field(default_factory=dict)
    visible: bool = True
    plug_refusals: dict[str, str] = field(default_factory=dict)
    """Text by key with which every plug into it fails."""
    stubborn: dict[str, int] = field(default_factory=dict)
    """How often unplugging a key still fails."""

    @property
    def digest(self) -> str:
        state = json.dumps([self.current, self.pending, sorted(self.deletes), self.snapshots], sort_keys=True)
        return hashlib.sha1(state.encode(), usedforsecurity=False).hexdigest()

    @property
    def hotplugs(self) -> bool:
        return "disk" in self.current.get("hotplug", "disk,network,usb")


class Refusal(Exception):
    def __init__(self, status: int, reason: str, errors: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.errors = status, reason, errors


Rule = Callable[[str, str, dict[str, str]], httpx.Response | Exception | None]


class FakePve(httpx.AsyncBaseTransport):
    """`rules` see every request first and may answer or raise in its stead; `after` see it once it was carried out."""

    def __init__(self) -> None:
        self.nodes: dict[str, bool] = {"pve1": True, "pve2": True, "pve3": True}
        self.vms: dict[int, FakeVm] = {}
        self.missing: set[str] = set()
        self.unreadable: set[str] = set()
        self.rights: dict[str, dict[str, int]] = {"/": {"VM.Audit": 1}, "/vms": {"VM.Audit": 1}}
        self.definitions: list[dict[str, object]] = []
        self.storages: list[dict[str, object]] = []
        self.log: list[tuple[str, str, str]] = []
        self.writes: list[dict[str, str]] = []
        self.rules: list[Rule] = []
        self.after: list[Rule] = []
        self.task_s = 0.1
        self.answer_s = 0.0
        """How long an answer is on its way."""
        self.tasks: dict[str, str] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._locks: dict[int, asyncio.Lock] = {}

    def count(self, kind: str = "foreground", method: str | None = None) -> int:
        return sum(1 for made, how, _ in self.log if made == kind and method in {None, how})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = unquote(request.url.raw_path.decode().partition("?")[0].removeprefix("/api2/json"))
        params = dict(parse_qsl(request.url.query.decode() or (await request.aread()).decode(), keep_blank_values=True))
        kind = re.search(r"\((poll|background)\)$", request.headers["User-Agent"])
        self.log.append((kind[1] if kind else "foreground", request.method, path))
        await asyncio.sleep(0.01)
        for rule in self.rules:
            if (answer := rule(request.method, path, params)) is not None:
                return _given(answer)
        try:
            data = await self._answer(request.method, path, params)
        except Refusal as refusal:
            return answer_of(refusal.status, refusal.reason, refusal.errors)
        await asyncio.sleep(self.answer_s)
        for rule in self.after:
            if (answer := rule(request.method, path, params)) is not None:
                return _given(answer)
        return httpx.Response(200, json={"data": data})

    async def _answer(self, method: str, path: str, params: dict[str, str]) -> object:
        if path == "/cluster/resources":
            return self._resources()
        if path == "/nodes":
            return [entry for entry in self._resources() if entry["type"] == "node"]
        if path == "/cluster/status":
            if "Sys.Audit" not in self.rights.get("/", {}):
                raise Refusal(403, "Permission check failed (/, Sys.Audit)")
            online = sum(self.nodes.values())
            cluster = {"type": "cluster", "name": "lab", "quorate": int(online * 2 > len(self.nodes))}
            return [cluster, *({"type": "node", "name": name, "online": int(up)} for name, up in self.nodes.items())]
        if path == "/storage":
            return self.definitions
        if path == "/access/permissions":
            return self.rights
        if path == "/cluster/nextid":
            if int(params["vmid"]) in self.vms:
                why = {"vmid": f"VM {params['vmid']} already exists"}
                raise Refusal(400, "Parameter verification failed.", why)
            return params["vmid"]
        if match := re.fullmatch(r"/nodes/([^/]+)/tasks/([^/]+)/status", path):
            exit_text = self.tasks[match[2]]
            return {"status": "stopped", "exitstatus": exit_text} if exit_text else {"status": "running"}
        if match := re.fullmatch(r"/nodes/([^/]+)/tasks", path):
            return [{"upid": upid} for upid, end in self.tasks.items() if not end and f":{match[1]}:" in upid]
        if match := re.fullmatch(r"/nodes/([^/]+)/qemu/(\d+)/(\w+)", path):
            return await self._of_vm(method, match[1], int(match[2]), match[3], params)
        raise Refusal(501, f"Method '{method} {path}' not implemented")

    def _resources(self) -> list[dict[str, object]]:
        nodes: list[dict[str, object]] = [
            {"type": "node", "node": name, "status": "online" if up else "offline"} for name, up in self.nodes.items()
        ]
        vms: list[dict[str, object]] = [
            {
                "type": vm.type,
                "vmid": vmid,
                "node": vm.node,
                "name": vm.name,
                "status": "running" if vm.running else "stopped",
                "uptime": vm.uptime_s if vm.running else 0,
                "template": 0,
            }
            for vmid, vm in self.vms.items()
            if vm.visible
        ]
        return [*nodes, *vms, *self.storages]

    async def _of_vm(self, method: str, node: str, vmid: int, what: str, params: dict[str, str]) -> object:
        if not self.nodes.get(node, False):
            raise Refusal(595, "No route to host")
        vm = self.vms.get(vmid)
        if vm is not None and not vm.visible:
            raise Refusal(403, f"Permission check failed (/vms/{vmid}, VM.Audit)")
        if vm is None or vm.node != node:
            raise Refusal(500, f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
        if what == "pending":
            return pending_of(vm)
        if what == "snapshot":
            listed: list[dict[str, object]] = [{"name": name, "snaptime": 1} for name in vm.snapshots]
            return [*listed, {"name": "current", "digest": vm.digest}]
        if what == "config" and method == "GET":
            return vm.snapshots[params["snapshot"]] if "snapshot" in params else dict(vm.current)
        if what == "config" and method == "POST":
            if lock := vm.current.get("lock"):
                raise Refusal(500, f"VM is locked ({lock})")
            if params.get("digest", vm.digest) != vm.digest:
                raise Refusal(500, DIGEST_TEXT)
            self.writes.append(params)
            upid = f"UPID:{node}:{len(self.tasks) + 1:08X}:00000001:6B0DCE75:qmconfig:{vmid}:csi@pve!csi:"
            self.tasks[upid] = ""
            worker = asyncio.get_running_loop().create_task(self._change(upid, vmid, vm, params))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
            return upid
        raise Refusal(501, f"Method '{method} …/{what}' not implemented")

    async def _change(self, upid: str, vmid: int, vm: FakeVm, params: dict[str, str]) -> None:
        async with self._locks.setdefault(vmid, asyncio.Lock()):
            await asyncio.sleep(self.task_s)
            if params.get("digest", vm.digest) != vm.digest:
                self.tasks[upid] = DIGEST_TEXT
                return
            try:
                self._store(vm, params)
                await self._plug(vm, params)
            except Refusal as refusal:
                errors = " ".join(f"{key}: {why}" for key, why in (refusal.errors or {}).items())
                self.tasks[upid] = f"{refusal.status} {refusal.reason} {errors}" if errors else refusal.reason
            else:
                self.tasks[upid] = "OK"

    def _store(self, vm: FakeVm, params: dict[str, str]) -> None:
        for key in filter(None, params.get("revert", "").split(",")):
            vm.pending.pop(key, None)
            vm.deletes.discard(key)
        for key in filter(None, params.get("delete", "").split(",")):
            if key in vm.current:
                vm.deletes.add(key)
            vm.pending.pop(key, None)
        for key, value in params.items():
            if not re.fullmatch(r"(scsi|virtio)\d+", key):
                continue
            volid = value.partition(",")[0]
            if volid in self.missing:
                raise Refusal(500, f"volume '{volid}' does not exist")
            if volid in self.unreadable:
                raise Refusal(500, "something else went wrong")
            vm.deletes.discard(key)
            vm.pending[key] = f"{value},size=1G"

    async def _plug(self, vm: FakeVm, params: dict[str, str]) -> None:
        """Like the real one: only the keys of this write are applied, the others go on waiting."""
        if vm.running and not vm.hotplugs:
            return
        failed: dict[str, str] = {}
        touched = {*params, *params.get("delete", "").split(",")}
        for key in sorted(vm.deletes & touched):
            await asyncio.sleep(1.0 if vm.running else 0)
            if vm.stubborn.get(key, 0) > 0:
                vm.stubborn[key] -= 1
                failed[key] = f"hotplug problem - error on hot-unplugging device 'virtio{key}' - still busy in guest?"
                continue
            vm.deletes.discard(key)
            vm.current.pop(key, None)
        for key in sorted(set(vm.pending) & touched):
            if key in vm.plug_refusals:
                failed[key] = f"hotplug problem - {vm.plug_refusals[key]}"
                continue
            vm.current[key] = vm.pending.pop(key)
        if failed:
            raise Refusal(400, "Parameter verification failed.", failed)


def pending_of(vm: FakeVm) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = [{"key": "digest", "value": vm.digest}]
    for key in sorted({*vm.current, *vm.pending}):
        entry: dict[str, object] = {"key": key}
        if key in vm.current:
            entry["value"] = vm.current[key]
        if key in vm.pending:
            entry["pending"] = vm.pending[key]
        if key in vm.deletes:
            entry["delete"] = 1
        entries.append(entry)
    return entries


def answer_of(status: int, reason: str, errors: dict[str, str] | None = None) -> httpx.Response:
    """An error answer as Proxmox VE writes it: the reason phrase, and the same text in the body."""
    if status in {401, 595, 596}:
        return httpx.Response(status, extensions={"reason_phrase": reason.encode()})
    body: dict[str, object] = {"data": None, "message": f"{reason}\n"}
    if errors:
        body["errors"] = {key: f"{why}\n" for key, why in errors.items()}
    return httpx.Response(status, json=body, extensions={"reason_phrase": reason.partition("\n")[0].encode()})


def _given(answer: httpx.Response | Exception) -> httpx.Response:
    if isinstance(answer, Exception):
        raise answer
    return answer
