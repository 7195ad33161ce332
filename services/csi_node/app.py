"""The only place that builds the node service's objects."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grpc.aio import Server

from appkit.clock import SystemClock
from appkit.health import Health, HttpServer, serve_http
from appkit.logs import get_logger
from appkit.metrics import Metrics, service_registry
from appkit.version import __version__
from csi_node.expansion import Expansion
from csi_node.host.devices import Devices, Waker, no_waker
from csi_node.host.exec import ProcessRunner, Runner
from csi_node.host.filesystems import Filesystems
from csi_node.host.kernel import Kernel, LinuxKernel
from csi_node.host.mounts import Mounts, containing
from csi_node.host.sysfs import Sysfs
from csi_node.host.uevents import kernel_waker
from csi_node.kube_access import find_access
from csi_node.operations import Operations
from csi_node.own_node import OwnNode, Transport
from csi_node.publishing import Publishing
from csi_node.servicer import NodeServicer
from csi_node.settings import NodeSettings
from csi_node.staging import Staging
from csi_node.stats import Stats
from csi_node.status_codes import ROWS
from csikit.contract import DRIVER_NAME
from csikit.identity import IdentityServicer, expansion_capability, service_capability
from csikit.interceptors import CallInterceptor
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.server import CsiServer, serve
from csikit.status import StatusTable

SERVICE: Final = "csi-node"
REAL_SYS: Final = Path("/sys")

_log = get_logger(__name__)


class App:
    """The node service: `start`, then `aclose`; `run` is both around a stop event."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        servicer: NodeServicer,
        operations: Operations,
        mounts: Mounts,
        health: Health,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._servicer = servicer
        self._operations = operations
        self._mounts = mounts
        self._health = health
        self._metrics = metrics
        self._server: CsiServer | None = None
        self._page: HttpServer | None = None

    @property
    def servicer(self) -> NodeServicer:
        """The Node service itself, for callers in the same process."""
        return self._servicer

    async def start(self) -> None:
        """Listen. Does not need the API server: kubelet must be answered whatever is down."""
        if self._settings.metrics_address:
            self._page = await serve_http(self._settings.metrics_address, self._health, self._metrics.registry)
        self._server = await serve(
            self._settings.csi_address,
            self._register,
            interceptors=[CallInterceptor(StatusTable(ROWS), self._metrics)],
            drain_s=self._settings.drain_s,
        )
        self._warn_about_propagation()
        self._health.set("server", ok=True)
        _log.info(
            "serving",
            extra={"address": self._server.address, "node": self._settings.node_id, "version": __version__},
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        try:
            await self.start()
            await stop.wait()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Refuse new calls, let running operations finish within the drain time, then stop them."""
        self._health.drain()
        if self._server is not None:
            await asyncio.gather(self._server.stop(), self._operations.aclose(self._settings.drain_s))
        if self._page is not None:
            await self._page.aclose()

    def _register(self, server: Server) -> None:
        identity = IdentityServicer(
            DRIVER_NAME,
            __version__,
            [
                service_capability(csi_pb2.PluginCapability.Service.CONTROLLER_SERVICE),
                service_capability(csi_pb2.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS),
                expansion_capability(csi_pb2.PluginCapability.VolumeExpansion.ONLINE),
            ],
            _probe,
        )
        csi_pb2_grpc.add_IdentityServicer_to_server(identity, server)
        csi_pb2_grpc.add_NodeServicer_to_server(self._servicer, server)

    def _warn_about_propagation(self) -> None:
        """In a container, mounts made under a kubelet directory that is not shared stay in the container."""
        mount = containing(self._mounts.all(), self._settings.kubelet_dir)
        if mount is not None and not any(field.startswith("shared:") for field in mount.propagation):
            _log.warning(
                "%s lies in a mount (%s) without shared propagation; in a container, mount it with Bidirectional "
                "propagation, or no Pod will see its volume",
                self._settings.kubelet_dir,
                mount.path,
            )


async def _probe() -> bool:
    """Ready as soon as it answers: what a call needs (a disk, the API server) is that call's to report."""
    return True


def build(
    settings: NodeSettings,
    *,
    env: Mapping[str, str],
    runner: Runner | None = None,
    kernel: Kernel | None = None,
    kube_transport: Transport | None = None,
) -> App:
    """Build the service. `runner` and `kernel` are the machine it works on, this one unless others are given."""
    runner = runner or ProcessRunner()
    kernel = kernel or LinuxKernel()
    waker = _waker(settings, kernel)
    sysfs = Sysfs(settings.sys_root, kernel)
    devices = Devices(
        sysfs,
        kernel,
        dev_root=settings.dev_root,
        clock=SystemClock(),
        timeout_s=settings.device_timeout_s,
        waker=waker,
    )
    mounts = Mounts(runner, kernel)
    filesystems = Filesystems(runner)
    operations = Operations()
    servicer = NodeServicer(
        node_id=settings.node,
        own_node=OwnNode(
            settings.node.name,
            lambda: find_access(kubeconfig=settings.kubeconfig, server=settings.kube_server, env=env),
            transport=kube_transport,
        ),
        operations=operations,
        staging=Staging(
            runner=runner,
            kernel=kernel,
            sysfs=sysfs,
            devices=devices,
            mounts=mounts,
            filesystems=filesystems,
            kubelet_dir=settings.kubelet_dir,
        ),
        publishing=Publishing(
            kernel=kernel, sysfs=sysfs, devices=devices, mounts=mounts, kubelet_dir=settings.kubelet_dir
        ),
        expansion=Expansion(kernel=kernel, devices=devices, mounts=mounts, filesystems=filesystems),
        stats=Stats(kernel=kernel, devices=devices, mounts=mounts),
        kubelet_dir=settings.kubelet_dir,
        sys_root=settings.sys_root,
    )
    return App(
        settings,
        servicer=servicer,
        operations=operations,
        mounts=mounts,
        health=Health("server"),
        metrics=Metrics(service_registry(SERVICE)),
    )


def _waker(settings: NodeSettings, kernel: Kernel) -> Waker:
    """Kernel events tell of the kernel's own sysfs only."""
    if settings.sys_root != REAL_SYS or not isinstance(kernel, LinuxKernel):
        return no_waker
    return kernel_waker
