"""The network between one program and Proxmox VE: carries requests, meets the drawn faults, dies with the program.

A request that has left is the world's: it goes on when its sender dies or gives up. Must not know what a request means.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

import httpx

from tests.pvesim.faults import Rule, task_fails
from tests.pvesim.transport import SimTransport
from tests.pvesim.world import World
from tests.sim.harness.faults import Fault, FaultPlan
from tests.sim.harness.virtual import VirtualLoop

Side = Literal["before", "after"]


class Wire(httpx.AsyncBaseTransport):
    """The connections of one process, from its start to its end. `on_doom` is called when the armed request comes."""

    def __init__(self, loop: VirtualLoop, world: World, faults: FaultPlan, on_doom: Callable[[], None]) -> None:
        self._loop = loop
        self._world = world
        self._inner = SimTransport(world)
        self._faults = faults
        self._on_doom = on_doom
        self._countdown = 0
        self._side: Side = "before"
        self._dead = False

    def arm(self, point: int, side: Side) -> None:
        """Doom the process `side` its request number `point` from now."""
        self._countdown, self._side = point, side

    def die(self) -> None:
        """Nothing more leaves; what is still on its way is lost."""
        self._dead = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._dead:
            raise httpx.ConnectError("this process is dead", request=request)
        self._countdown -= 1
        doomed = self._countdown == 0
        if doomed and self._side == "before":
            await self._perish()
        path = request.url.path.removeprefix("/api2/json")
        carrying = self._loop.spawn(None, self._carry(request, self._faults.take(request.method, path)))
        carrying.add_done_callback(_retrieve)
        answer = await asyncio.shield(carrying)
        if doomed:
            await self._perish()
        return answer

    async def _perish(self) -> None:
        self.die()
        self._on_doom()
        await asyncio.Event().wait()

    async def _carry(self, request: httpx.Request, fault: Fault | None) -> httpx.Response:
        if fault is None:
            return await self._inner.handle_async_request(request)
        match fault.kind:
            case "delay":
                await asyncio.sleep(fault.seconds)
                if self._dead:
                    raise httpx.RemoteProtocolError("its sender died", request=request)
                return await self._inner.handle_async_request(request)
            case "cut_before":
                raise httpx.RemoteProtocolError("cut before the effect", request=request)
            case "answer_before":
                return _answer(fault, request)
            case "task_before" | "task_after":
                return await self._carry_task_fault(request, fault)
            case "cut_after":
                await self._inner.handle_async_request(request)
                raise httpx.RemoteProtocolError("cut after the effect", request=request)
            case "answer_after":
                await self._inner.handle_async_request(request)
                return _answer(fault, request)

    async def _carry_task_fault(self, request: httpx.Request, fault: Fault) -> httpx.Response:
        # The world takes its rules up before it waits for the first time, so the rule meets this request.
        rule = self._world.faults.add(Rule(task_fails(fault.text, after=fault.kind == "task_after")))
        try:
            return await self._inner.handle_async_request(request)
        finally:
            self._world.faults.rules.remove(rule)


def _retrieve(carrying: asyncio.Task[httpx.Response]) -> None:
    """Whoever sent it may be dead, and nobody be left to hear of the error."""
    if not carrying.cancelled():
        carrying.exception()


def _answer(fault: Fault, request: httpx.Request) -> httpx.Response:
    """As Proxmox VE's proxy (595, 596: no body) or its API would."""
    body = b"" if fault.status in (595, 596) else b'{"data":null,"message":"%s\\n"}' % fault.text.encode()
    return httpx.Response(
        fault.status, content=body, extensions={"reason_phrase": fault.text.encode()}, request=request
    )
