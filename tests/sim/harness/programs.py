"""The two programs under test as processes that are started, killed at any of their requests, and started anew."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ccm.app
import csi_controller.app
from csi_controller.servicer import ControllerServicer
from kubekit.sessions import KubeSession
from pvekit.clusters import Clusters
from tests.kubesim import Cluster
from tests.kubesim.transport import SimTransport as KubeTransport
from tests.pvesim.world import World
from tests.sim.harness.faults import FaultPlan
from tests.sim.harness.stage import ccm_settings, controller_settings
from tests.sim.harness.virtual import Process, VirtualClock, VirtualLoop
from tests.sim.harness.wire import Side, Wire

Plant = Callable[[Clusters], None]
"""Breaks a program on purpose, as soon as its objects are there."""


class Program:
    """One program; `process` is None while it does not run."""

    def __init__(self, loop: VirtualLoop, world: World, kube: Cluster, name: str) -> None:
        self._loop = loop
        self._world = world
        self._kube = kube
        self.name = name
        self.faults = FaultPlan()
        self.process: Process | None = None
        self.lives = 0
        self.restart_s = 1.0
        self._wire: Wire | None = None
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin a new life, unless it lives."""
        if self.process is not None:
            return
        self.lives += 1
        self.process = Process(f"{self.name}-{self.lives}")
        self._wire = Wire(self._loop, self._world, self.faults, self._doom)
        kube = KubeTransport(self._kube, user_agent=self.process.name)
        session = KubeSession(kube, clock=VirtualClock(self._loop))
        self._loop.spawn(self.process, self._guarded(self._wire, session))

    def arm(self, point: int, side: Side, restart_s: float) -> None:
        """Kill it at the `point`-th of its requests to Proxmox VE from now; it is started again after `restart_s`."""
        if self._wire is not None:
            self.restart_s = restart_s
            self._wire.arm(point, side)

    def kill(self, restart_s: float) -> None:
        """Kill it now."""
        if self.process is not None:
            self.restart_s = restart_s
            self._doom()

    async def stop(self) -> None:
        """Kill it for good."""
        if self._ending is not None:
            await asyncio.wait({self._ending})
        if self.process is not None:
            await self._die()

    def _doom(self) -> None:
        if self._ending is None or self._ending.done():
            self._ending = self._loop.spawn(None, self._die_and_return())

    async def _die_and_return(self) -> None:
        await self._die()
        await asyncio.sleep(self.restart_s)
        self.start()

    async def _die(self) -> None:
        process, self.process = self.process, None
        if self._wire is not None:
            self._wire.die()
        self._forget()
        if process is not None:
            await process.kill()

    async def _guarded(self, wire: Wire, session: KubeSession) -> None:
        try:
            await self._run(wire, session)
        except Exception as error:  # noqa: BLE001 - a program that ends by itself is a finding, whatever ended it
            self._loop.faults.append(f"{self.name} ended by itself: {error!r}, {error.__cause__!r}")

    async def _run(self, wire: Wire, session: KubeSession) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        """Whatever referred to the life that ended."""


class Controller(Program):
    """The CSI controller. `call` is the way of a sidecar to it, without gRPC between."""

    def __init__(self, loop: VirtualLoop, world: World, kube: Cluster, plant: Plant | None) -> None:
        super().__init__(loop, world, kube, "csi")
        self._plant = plant
        self._servicer: ControllerServicer | None = None

    async def _run(self, wire: Wire, session: KubeSession) -> None:
        app = await csi_controller.app.build(
            controller_settings(), clock=VirtualClock(self._loop), transport_for=lambda _: wire, kube=session
        )
        if self._plant is not None:
            self._plant(app.clusters)
        self._servicer = app.servicer
        await app.run(asyncio.Event())

    def _forget(self) -> None:
        self._servicer = None

    def find_method(self, verb: str) -> Callable[[Any, Any], Awaitable[Any]] | None:
        """The RPC of the life that runs; None when none does."""
        return None if self._servicer is None else getattr(self._servicer, verb)


class CloudManager(Program):
    """The cloud-controller-manager."""

    def __init__(self, loop: VirtualLoop, world: World, kube: Cluster) -> None:
        super().__init__(loop, world, kube, "ccm")

    async def _run(self, wire: Wire, session: KubeSession) -> None:
        app = await ccm.app.build(
            ccm_settings(), clock=VirtualClock(self._loop), transport_for=lambda _: wire, kube=session
        )
        await app.run(asyncio.Event())
