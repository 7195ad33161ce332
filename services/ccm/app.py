"""Builds the service's objects, and runs them in order. The only place that constructs any of them.

Proxmox VE is polled and Nodes are watched only while the Lease is held; a standby costs neither. SIGTERM: unready, no
new work, what runs is finished, the Lease is released.
"""

import asyncio
import contextlib
import math
import socket
import ssl
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from appkit.background import Background
from appkit.backoff import Backoff
from appkit.clock import Clock, SystemClock
from appkit.health import Health, serve_http
from appkit.logs import get_logger
from appkit.metrics import Metrics, service_registry
from ccm.instances import InstanceFinder
from ccm.metrics import CcmMetrics
from ccm.node_controller import NodeController
from ccm.serving import server_tls
from ccm.settings import LIFECYCLE_CONTROLLER, NODE_CONTROLLER, CcmSettings, Loaded
from ccm.visibility import Visibility
from kubekit.events import EventRecorder
from kubekit.informer import Informer
from kubekit.lease import LeaseHolder
from kubekit.metrics import KubeMetrics
from kubekit.sessions import KubeSession, connect
from kubekit.workqueue import WorkQueue
from pvekit.clusters import Clusters
from pvekit.metrics import PveMetrics
from pvekit.settings import ClusterSettings

_log = get_logger(__name__)

_RETRY = Backoff(first_s=0.25, factor=2.0, max_s=120.0)
# A Node is not tried before the VM lists are there, but one region that does not answer must not hold up the others.
_FIRST_LISTS_S = 10.0
_DRAIN_S = 15.0
_FLUSH_S = 2.0
_HEALTH_S = 1.0
_STALE_LIST_S = 60.0
_STALE_WATCH_S = 150.0


@dataclass
class App:
    """One process of the cloud-controller-manager; made by `build`."""

    settings: CcmSettings
    session: KubeSession
    clusters: Clusters
    nodes: Informer
    queue: WorkQueue
    controller: NodeController
    events: EventRecorder
    lease: LeaseHolder
    health: Health
    registry: CollectorRegistry
    metrics: CcmMetrics

    async def run(self, stop: asyncio.Event) -> None:
        """Serve the pages, hold the Lease, run what is switched on, until `stop`. Raises LeaseLost when it is taken."""
        async with contextlib.AsyncExitStack() as stack:
            for address, tls in pages(self.settings):
                server = await serve_http(address, self.health, self.registry, tls=tls)
                stack.push_async_callback(server.aclose)
                _log.info("serving", extra={"address": server.address, "https": tls is not None})
            stack.callback(self.health.drain)
            if self.settings.leader_elect:
                self.health.set("controllers", True, "standing by for the Lease")
                await self.lease.lead(lambda: self._lead(stop), stop)
            else:
                await self._lead(stop)

    async def aclose(self) -> None:
        """Close every connection."""
        await self.clusters.aclose()
        await self.session.aclose()

    async def _lead(self, stop: asyncio.Event) -> None:
        if self.settings.runs(LIFECYCLE_CONTROLLER):
            _log.warning(
                "cloud-node-lifecycle is not in this version yet: Nodes of destroyed VMs are not deleted, "
                "Nodes of stopped VMs are not tainted"
            )
        async with Background() as background:
            if self.settings.runs(NODE_CONTROLLER):
                self.clusters.start()
                background.start("proxmox pollers", self.clusters.watch())
                background.start("health", self._watch_health())
                background.start("events", self.events.run())
                background.start("node informer", self.nodes.run())
                await self._work(background, stop)
            else:
                _log.warning("cloud-node is switched off: nothing to do")
                await background.run_until(stop)

    async def _work(self, background: Background, stop: asyncio.Event) -> None:
        """Run the queue until `stop`, then finish the Nodes that are being worked on."""
        await self._first_lists(stop)
        working = asyncio.create_task(self.queue.run(), name="node queue")
        self.metrics.controller_runs("cloud-node", runs=True)
        try:
            await background.run_until(stop)
            self.health.drain()
            self.queue.shut_down()
            await asyncio.wait({working}, timeout=_DRAIN_S)
            await self.events.flush(_FLUSH_S)
        finally:
            self.metrics.controller_runs("cloud-node", runs=False)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _first_lists(self, stop: asyncio.Event) -> None:
        """Wait for each region's first list, or for its failure, which its inventory logs."""
        lists = asyncio.gather(
            *(region.inventory.refresh() for region in self.clusters.regions()), return_exceptions=True
        )
        waits: set[asyncio.Future[Any]] = {lists, asyncio.ensure_future(stop.wait())}
        await asyncio.wait(waits, timeout=_FIRST_LISTS_S, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def _watch_health(self) -> None:
        while True:
            age_s = self.nodes.age_s()
            fresh = age_s < _STALE_WATCH_S
            self.health.set("controllers", fresh, "" if fresh else _stale("Nodes", age_s))
            for region in self.clusters.regions():
                age_s, trouble = region.inventory.age_s(), region.inventory.trouble
                reason = str(trouble) if trouble else _stale("VMs", age_s)
                self.health.set(f"proxmox {region.name}", age_s < _STALE_LIST_S, reason)
            await self.session.clock.sleep(_HEALTH_S)


async def build(
    loaded: Loaded,
    *,
    clock: Clock | None = None,
    transport_for: Callable[[ClusterSettings], httpx.AsyncBaseTransport] | None = None,
    kube: KubeSession | None = None,
) -> App:
    """All objects of a process; reads the kubeconfig, sends nothing. Raises SettingsError for a kubeconfig it cannot
    use.

    `transport_for` and `kube` replace the connections to Proxmox VE and to the API server, for simulators in the same
    process.
    """
    settings, cloud, clock = loaded.settings, loaded.cloud, clock or SystemClock()
    registry = service_registry("ccm")
    metrics = Metrics(registry)
    kube_metrics, pve_metrics, ccm_metrics = KubeMetrics(metrics), PveMetrics(metrics), CcmMetrics(metrics)
    session = kube or await connect(settings.kube, metrics=kube_metrics, clock=clock)
    clusters = Clusters.build(
        cloud, transport_for=transport_for, clock=clock, metrics=pve_metrics, user_agent="pvecloud-ccm",
        storages=False, drives=False,
    )  # fmt: skip
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    nodes = Informer(session, "/api/v1/nodes")
    events = EventRecorder(session, "cloud-node-controller", instance=identity)
    controller = NodeController(
        session=session,
        nodes=nodes,
        finder=InstanceFinder(clusters, Visibility(clock), pve_metrics, clock),
        events=events,
        provider=cloud.features.provider,
        metrics=ccm_metrics,
    )
    queue = WorkQueue(
        controller.sync, name="Nodes", workers=settings.concurrent_node_syncs, backoff=_RETRY, metrics=kube_metrics,
        clock=clock,
    )  # fmt: skip
    nodes.on_change(lambda name: queue.add(name) if controller.changed(name) else None)
    lease = LeaseHolder(
        session,
        settings.leader_elect_resource_namespace,
        settings.leader_elect_resource_name,
        identity,
        lease_s=settings.leader_elect_lease_duration,
        renew_s=settings.leader_elect_renew_deadline,
        retry_s=settings.leader_elect_retry_period,
    )
    return App(
        settings,
        session,
        clusters,
        nodes,
        queue,
        controller,
        events,
        lease,
        Health("controllers"),
        registry,
        ccm_metrics,
    )


def pages(settings: CcmSettings) -> list[tuple[str, ssl.SSLContext | None]]:
    """What to listen on: address, and TLS where it is https."""
    found: list[tuple[str, ssl.SSLContext | None]] = []
    if settings.metrics_address:
        found.append((settings.metrics_address, None))
    if settings.secure_port:
        host = f"[{settings.bind_address}]" if ":" in settings.bind_address else settings.bind_address
        found.append(
            (f"{host}:{settings.secure_port}", server_tls(settings.tls_cert_file, settings.tls_private_key_file))
        )
    return found


def _stale(what: str, age_s: float) -> str:
    return f"{what} not listed yet" if age_s == math.inf else f"{what} last listed {age_s:.0f} s ago"
