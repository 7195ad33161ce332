"""The only place that builds the controller's objects, and the order in which they start and stop."""

import asyncio
import contextlib
from functools import partial
from typing import Final

import grpc

from appkit.background import Background
from appkit.clock import Clock, SystemClock
from appkit.health import Health, HttpServer, serve_http
from appkit.logs import get_logger
from appkit.metrics import Metrics, service_registry
from appkit.version import __version__
from csi_controller.attachments import Attachments
from csi_controller.capacity import Capacities
from csi_controller.expansion import Expansion
from csi_controller.kube_nodes import NODES_PATH, InformerNodes
from csi_controller.regions import Regions
from csi_controller.servicer import ControllerServicer
from csi_controller.settings import ControllerSettings, Loaded
from csi_controller.volumes import Volumes
from csi_controller.workers import Workers
from csikit.contract import DRIVER_NAME
from csikit.identity import IdentityServicer, expansion_capability, service_capability
from csikit.interceptors import CallInterceptor
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.server import CsiServer, serve
from csikit.status import StatusTable
from kubekit.informer import Informer
from kubekit.metrics import KubeMetrics
from kubekit.sessions import KubeSession, connect
from pvekit.clusters import Clusters, TransportFor
from pvekit.metrics import PveMetrics

SERVICE: Final = "csi-controller"

# A region that does not answer must not keep the others from being served, but each gets a fair chance first.
_FIRST_READING_S = 10.0
_HEALTH_S = 5.0
_HEALTH_STARTING_S = 0.1
_STALE_S = 60.0

_log = get_logger(__name__)


class App:
    """The controller: `start`, then `aclose`; `run` is both around a stop event."""

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        servicer: ControllerServicer,
        clusters: Clusters,
        regions: Regions,
        session: KubeSession | None,
        informer: Informer | None,
        health: Health,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._servicer = servicer
        self._clusters = clusters
        self._regions = regions
        self._session = session
        self._informer = informer
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._background = Background()
        self._started_at = float("inf")
        self._server: CsiServer | None = None
        self._page: HttpServer | None = None
        self._settling: asyncio.Task[None] | None = None

    @property
    def clusters(self) -> Clusters:
        """The Proxmox VE side, for callers in the same process."""
        return self._clusters

    @property
    def servicer(self) -> ControllerServicer:
        """The Controller service, for callers in the same process; it raises errors of `appkit.errors`."""
        return self._servicer

    async def start(self) -> None:
        """Listen, and begin to read the inventories; calls are refused as UNAVAILABLE until those are there."""
        self._started_at = self._clock.monotonic()
        if self._settings.metrics_address:
            self._page = await serve_http(self._settings.metrics_address, self._health, self._metrics.registry)
        self._clusters.start()
        if self._informer is not None:
            self._background.start("node informer", self._informer.run())
        else:
            _log.warning("no Kubernetes API server is configured: a worker's VM must have the name of its node")
        self._settling = asyncio.create_task(self._regions.settle(), name="settle")
        self._background.start("health", self._watch_health())
        self._background.start("proxmox pollers", self._clusters.watch())
        if self._settings.csi_address:
            self._server = await serve(
                self._settings.csi_address,
                self._register,
                interceptors=[CallInterceptor(StatusTable(), self._metrics)],
                drain_s=self._settings.drain_s,
            )
            _log.info("serving", extra={"address": self._server.address, "version": __version__})
        self._health.set("server", ok=True)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises BackgroundFailed when something that must not end has ended."""
        try:
            await self.start()
            await self._background.run_until(stop)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Refuse new calls, let running ones finish within the drain time, then close every connection."""
        self._health.drain()
        deadline = self._clock.monotonic() + self._settings.drain_s
        if self._server is not None:
            await self._server.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline - self._clock.monotonic()):
                await self._servicer.drain()
        # In this order: the health watch looks at how the settling ended.
        await self._background.aclose()
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)
        await self._clusters.aclose(max(0.0, deadline - self._clock.monotonic()))
        if self._session is not None:
            await self._session.aclose()
        if self._page is not None:
            await self._page.aclose()

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until every region may be served and the Nodes are read; raises Unavailable or TimeoutError."""
        if self._informer is not None:
            await self._informer.wait_synced(timeout_s)
        if self._settling is not None:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._settling)

    async def is_ready(self) -> bool:
        """The answer to Probe: every region may be served, or at least one after the first ten seconds.

        A region that falls silent later does not take it back: a restart would not help, and a liveness probe that
        follows this would cause one.
        """
        ready = [self._regions.is_ready(region) for region in self._regions.all()]
        patience_over = self._clock.monotonic() - self._started_at > _FIRST_READING_S
        return all(ready) or (patience_over and any(ready))

    def _register(self, server: grpc.aio.Server) -> None:
        identity = IdentityServicer(
            DRIVER_NAME,
            __version__,
            [
                service_capability(csi_pb2.PluginCapability.Service.CONTROLLER_SERVICE),
                service_capability(csi_pb2.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS),
                expansion_capability(csi_pb2.PluginCapability.VolumeExpansion.ONLINE),
            ],
            self.is_ready,
        )
        csi_pb2_grpc.add_IdentityServicer_to_server(identity, server)
        csi_pb2_grpc.add_ControllerServicer_to_server(self._servicer, server)

    async def _watch_health(self) -> None:
        while True:
            if self._settling is not None and self._settling.done():
                self._settling.result()
            ready = await self.is_ready()
            self._health.set("inventory", ready, "" if ready else "not loaded yet")
            for region in self._clusters.regions():
                age_s = region.inventory.age_s()
                fresh = age_s < _STALE_S
                trouble = f": {region.inventory.trouble}" if region.inventory.trouble else ""
                why = "" if fresh else f"last read {age_s:.0f} s ago{trouble}"
                self._health.set(f"proxmox {region.name}", fresh, why)
            await self._clock.sleep(_HEALTH_S if ready else _HEALTH_STARTING_S)


async def build(
    loaded: Loaded,
    *,
    clock: Clock | None = None,
    transport_for: TransportFor | None = None,
    kube: KubeSession | None = None,
) -> App:
    """All objects of a process; reads the kubeconfig, sends nothing. Raises SettingsError for one it cannot use.

    `transport_for` and `kube` replace the connections to Proxmox VE and to Kubernetes.
    """
    settings, cloud = loaded.settings, loaded.cloud
    clock = clock or SystemClock()
    metrics = Metrics(service_registry(SERVICE))
    clusters = Clusters.build(
        cloud,
        transport_for=transport_for,
        clock=clock,
        metrics=PveMetrics(metrics),
        user_agent=f"pvecloud-{SERVICE}/{__version__}",
        drives=False,  # `Regions.settle` starts the indexes
    )
    session = kube
    if session is None and settings.kube is not None:
        session = await connect(settings.kube, metrics=KubeMetrics(metrics), clock=clock)
    informer = Informer(session, NODES_PATH) if session is not None else None
    nodes = InformerNodes(informer) if informer is not None else None
    if nodes is not None:
        for region in clusters.regions():
            region.drives.expect(partial(nodes.vmids, region.name))
    regions = Regions(clusters)
    workers = Workers(regions, nodes)
    return App(
        settings,
        servicer=ControllerServicer(
            Volumes(regions, cloud.features.controller_vmid),
            Attachments(regions, workers),
            Expansion(regions),
            Capacities(regions),
        ),
        clusters=clusters,
        regions=regions,
        session=session,
        informer=informer,
        health=Health("server", "inventory"),
        metrics=metrics,
        clock=clock,
    )
