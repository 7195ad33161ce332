"""Simulated Proxmox VE clusters over HTTPS, a fake Kubernetes API over HTTP, and the real service between them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from appkit.clock import SystemClock
from ccm.app import App, build
from ccm.settings import load_settings
from kubekit.nodes import PROVIDED_NODE_IP, UNINITIALIZED_TAINT
from tests.kubesim import KubeSim
from tests.pvesim.server import SimServer
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, system_uuid, worker_ip

TAINT = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
WAIT_S = 10.0


def new_node(
    vmid: int, *, name: str = "", uuid: str = "", provider_id: str = "", node_ip: str | None = ""
) -> dict[str, Any]:
    """A Node as a kubelet with `--cloud-provider=external` registers it; `node_ip` None: without --node-ip."""
    name = name or f"worker-{vmid - 100}"
    node_ip = worker_ip(vmid) if node_ip == "" else node_ip
    metadata: dict[str, Any] = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    if node_ip is not None:
        metadata["annotations"] = {PROVIDED_NODE_IP: node_ip}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": [TAINT], **({"providerID": provider_id} if provider_id else {})},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"systemUUID": uuid or system_uuid(vmid)},
        },
    }


class Bench:
    """`worlds` by region. Apps are started by `service`; several may run, as after a crash or beside a leader."""

    def __init__(self, kube: KubeSim, servers: Mapping[str, SimServer], folder: Path) -> None:
        self.kube = kube
        self.servers = servers
        self.folder = folder

    def cloud_config(self, **features: Any) -> Path:
        file = self.folder / "cloud.yaml"
        clusters = [
            {
                "region": region,
                "urls": [f"{url}/api2/json" for url in server.urls],
                "ca_file": str(server.ca_file),
                "token_id": CCM_TOKEN,
                "token_secret": CCM_SECRET,
            }
            for region, server in self.servers.items()
        ]
        file.write_text(yaml.safe_dump({"features": features, "clusters": clusters}))
        return file

    async def build(self, *, features: Mapping[str, Any] | None = None, **settings: Any) -> App:
        overrides = {
            "cloud_config": str(self.cloud_config(**(features or {}))),
            "kube_server": self.kube.url,
            **settings,
        }
        return await build(load_settings(config=None, env={}, overrides=overrides), clock=SystemClock())

    @asynccontextmanager
    async def service(self, **settings: Any) -> AsyncIterator[App]:
        """The service, running; stopped as by SIGTERM at the end."""
        app = await self.build(**settings)
        stop = asyncio.Event()
        running = asyncio.create_task(app.run(stop))
        try:
            yield app
        finally:
            stop.set()
            try:
                await running
            finally:
                await app.aclose()

    @asynccontextmanager
    async def crashing_service(self, **settings: Any) -> AsyncIterator[App]:
        """The service, running; at the end it is gone from one moment to the next: nothing is finished or released."""
        app = await self.build(**{"leader_elect": False, **settings})
        running = asyncio.create_task(app.run(asyncio.Event()))
        try:
            yield app
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await app.aclose()

    # What is there

    def node(self, name: str) -> dict[str, Any]:
        found = self.kube.get("nodes", name)
        assert found is not None
        return dict(found)

    def tainted(self, name: str) -> bool:
        return TAINT in (self.node(name)["spec"].get("taints") or [])

    def addresses(self, name: str) -> list[tuple[str, str]]:
        return [(each["type"], each["address"]) for each in self.node(name)["status"]["addresses"]]

    def events(self, reason: str, name: str | None = None) -> list[str]:
        return [
            str(each["message"])
            for each in self.kube.items("events")
            if each["reason"] == reason and name in (None, each["involvedObject"]["name"])
        ]

    def node_writes(self) -> list[str]:
        """The writes about Nodes since the beginning: `patch nodes`, `patch nodes/status`, `create events`, …"""
        return [
            f"{each.verb} {each.resource}"
            for each in self.kube.log
            if each.verb not in ("get", "list", "watch") and not each.resource.startswith("leases")
        ]

    # Waiting

    async def until(self, holds: Callable[[], object], *, timeout_s: float = WAIT_S) -> None:
        """Wait for a fact; fails with the events that were written when it does not come."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                events = [(each["reason"], each["message"]) for each in self.kube.items("events")]
                raise AssertionError(f"did not come true within {timeout_s} s; events: {events}")
            await asyncio.sleep(0.01)

    async def until_done(self, *names: str, timeout_s: float = WAIT_S) -> None:
        """Wait until the Nodes are untainted and their `Synced` events written."""
        await self.until(lambda: all(self.events("Synced", name) for name in names), timeout_s=timeout_s)
        assert not [name for name in names if self.tainted(name)]


@asynccontextmanager
async def bench(
    folder: Path, worlds: Iterable[World], nodes: Iterable[Mapping[str, Any]] = (), *, kube: KubeSim | None = None
) -> AsyncIterator[Bench]:
    """Everything but the service, listening."""
    servers: dict[str, SimServer] = {}
    kube = kube or KubeSim(nodes)
    try:
        for world in worlds:
            state = folder / world.region
            state.mkdir()
            servers[world.region] = SimServer(world, state)
            await servers[world.region].start()
        await kube.start()
        yield Bench(kube, servers, folder)
    finally:
        await kube.aclose()
        for server in servers.values():
            await server.aclose()
