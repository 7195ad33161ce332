"""A World behind real HTTPS: own CA, one port a node, and a control door beside the API.

The control door (`/__sim__/...`) is for tests and demonstrations: log, world state, faults, darkness. Must not hold a
rule of Proxmox VE.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import trustme
from aiohttp import web

from tests.pvesim.errors import Cut
from tests.pvesim.faults import Faults
from tests.pvesim.requests import SimRequest
from tests.pvesim.world import World


class SimServer:
    """Serves a world until `aclose`. `urls` holds one URL a node, in the world's order; `ca_file` what signs them."""

    def __init__(self, world: World, state_dir: Path) -> None:
        self.world = world
        self.state_dir = state_dir
        self.ca_file = state_dir / "ca.pem"
        self.urls: list[str] = []
        self._runners: list[web.AppRunner] = []
        self._ca = trustme.CA()

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen: the first node on `port` (0: any), each further one on a port of its own."""
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        for number, node in enumerate(self.world.nodes):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._ca.issue_cert(host, "localhost", node.name).configure_cert(context)
            app = web.Application(client_max_size=64 << 20)
            app.add_routes(
                [
                    web.get("/__sim__/log", self._get_log),
                    web.get("/__sim__/world", self._get_world),
                    web.get("/__sim__/state", self._get_state),
                    web.post("/__sim__/cluster", self._post_cluster),
                    web.post("/__sim__/storages/{storage}", self._post_storage),
                    web.post("/__sim__/faults", self._post_faults),
                    web.delete("/__sim__/faults", self._delete_faults),
                    web.post("/__sim__/nodes/{node}", self._post_node),
                    web.post("/__sim__/vms/{vmid}", self._post_vm),
                    web.route("*", "/{tail:.*}", self._door(node.name)),
                ]
            )
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            site = web.TCPSite(runner, host, port if number == 0 else 0, ssl_context=context)
            await site.start()
            self._runners.append(runner)
            self.urls.append(f"https://{host}:{runner.addresses[0][1]}")

    async def aclose(self) -> None:
        """Stop listening, stop the world."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
        await self.world.aclose()

    def _door(self, node: str) -> Any:
        async def serve(request: web.Request) -> web.StreamResponse:
            return await self._serve(request, node)

        return serve

    async def _serve(self, request: web.Request, node: str) -> web.StreamResponse:
        host = self.world.nodes.find(node)
        if host is not None and host.dark in ("cut", "no-pveproxy"):
            return self._drop(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            answer = await self.world.handle(
                SimRequest(request.method, request.raw_path, headers, await request.read(), node)
            )
        except Cut:
            return self._drop(request)
        answer_headers = {k: v for k, v in answer.headers.items() if k != "Date"}
        response = web.Response(status=answer.status, reason=answer.reason, headers=answer_headers, body=answer.body)
        if answer.status >= 400:
            response.force_close()
        return response

    @staticmethod
    def _drop(request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=599)

    async def _get_log(self, request: web.Request) -> web.Response:
        mark = int(request.query.get("since", "0"))
        entries = [asdict(entry) for entry in self.world.log.since(mark)]
        return web.json_response({"next": len(self.world.log), "entries": entries})

    async def _get_world(self, request: web.Request) -> web.Response:
        return web.json_response(world_state(self.world))

    async def _get_state(self, request: web.Request) -> web.Response:
        return web.json_response(self.world.dump())

    async def _post_cluster(self, request: web.Request) -> web.Response:
        self.world.quorate = bool((await request.json())["quorate"])
        return web.json_response({})

    async def _post_storage(self, request: web.Request) -> web.Response:
        body: Mapping[str, Any] = await request.json()
        storage = self.world.storages.get(request.match_info["storage"])
        storage.unmounted = body.get("unmounted", storage.unmounted)
        if "locked" in body:
            locked = self.world.storages.locked
            (locked.add if body["locked"] else locked.discard)(storage.storage_id)
        return web.json_response({})

    async def _post_faults(self, request: web.Request) -> web.Response:
        self.world.faults.add(Faults.parse(await request.json()))
        return web.json_response({"rules": len(self.world.faults.rules)})

    async def _delete_faults(self, request: web.Request) -> web.Response:
        self.world.faults.clear()
        return web.json_response({"rules": 0})

    async def _post_node(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.world.broadcasts.darken(request.match_info["node"], body["dark"])
        return web.json_response({})

    async def _post_vm(self, request: web.Request) -> web.Response:
        vm = self.world.vms[int(request.match_info["vmid"])]
        body: Mapping[str, Any] = await request.json()
        vm.paused, vm.guest_dead = body.get("paused", vm.paused), body.get("guest_dead", vm.guest_dead)
        return web.json_response({})


def world_state(world: World) -> dict[str, Any]:
    """What exists, as plain data: nodes, VMs with config, pending and plugged disks, volumes."""
    return {
        "region": world.region,
        "quorate": world.quorate,
        "nodes": {node.name: {"dark": node.dark} for node in world.nodes},
        "vms": {
            vm.vmid: {
                "node": vm.node,
                "running": vm.running,
                "config": vm.conf,
                "pending": vm.pending,
                "pending_delete": sorted(vm.pending_delete),
                "plugged": {key: plugged.volid for key, plugged in sorted(vm.plugged.items())},
            }
            for vm in world.vms.values()
        },
        "volumes": [
            {"volid": v.volid, "node": v.node, "owner": v.owner, "format": v.format, "size": v.size_bytes}
            for v in world.storages.volumes.values()
        ],
    }


def ready_document(server: SimServer) -> str:
    """The ready file: {"url", "urls", "ca_file", "region", "state_dir"} as JSON; guests' roots lie in state_dir."""
    return json.dumps(
        {
            "url": server.urls[0],
            "urls": server.urls,
            "ca_file": str(server.ca_file),
            "region": server.world.region,
            "state_dir": str(server.state_dir),
        }
    )
