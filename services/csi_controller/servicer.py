"""The Controller service: parse, hold the volume, act, reply. Nothing else.

An operation that has begun is finished even when its caller gives up, and keeps its volume until then: a publish to
another VM must not start while the first may still succeed. RPCs that are missing here answer UNIMPLEMENTED and are not
advertised.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from grpc.aio import ServicerContext

from csi_controller import replies, requests
from csi_controller.attachments import Attachments
from csi_controller.capacity import Capacities, Capacity
from csi_controller.expansion import Expansion
from csi_controller.volumes import Volumes
from csikit.handles import VolumeHandle
from csikit.inflight import InFlight
from csikit.pb import csi_pb2, csi_pb2_grpc

T = TypeVar("T")
_Context = ServicerContext[Any, Any]


class ControllerServicer(csi_pb2_grpc.ControllerServicer):
    """One object per process; safe for concurrent calls."""

    def __init__(
        self, volumes: Volumes, attachments: Attachments, expansion: Expansion, capacities: Capacities
    ) -> None:
        self._volumes = volumes
        self._attachments = attachments
        self._expansion = expansion
        self._capacities = capacities
        self._in_flight = InFlight()
        self._running: set[asyncio.Task[Any]] = set()

    async def CreateVolume(  # noqa: N802, D102 - the protocol's names and meaning, here and below
        self, request: csi_pb2.CreateVolumeRequest, context: _Context
    ) -> csi_pb2.CreateVolumeResponse:
        plan = self._volumes.plan(requests.create_volume(request))
        volume = await self._exclusively(plan.handle, "CreateVolume", lambda: self._volumes.create(plan))
        return replies.create_volume(volume)

    async def DeleteVolume(  # noqa: N802, D102
        self, request: csi_pb2.DeleteVolumeRequest, context: _Context
    ) -> csi_pb2.DeleteVolumeResponse:
        handle = requests.delete_volume(request)
        if handle is not None:
            await self._exclusively(handle, "DeleteVolume", lambda: self._volumes.delete(handle))
        return csi_pb2.DeleteVolumeResponse()

    async def ControllerPublishVolume(  # noqa: N802, D102
        self, request: csi_pb2.ControllerPublishVolumeRequest, context: _Context
    ) -> csi_pb2.ControllerPublishVolumeResponse:
        parsed = requests.publish_volume(request)
        published = await self._exclusively(
            parsed.handle,
            "ControllerPublishVolume",
            lambda: self._attachments.publish(
                parsed.handle, parsed.node, read_only=parsed.read_only, context=parsed.context
            ),
        )
        return replies.publish_volume(published)

    async def ControllerUnpublishVolume(  # noqa: N802, D102
        self, request: csi_pb2.ControllerUnpublishVolumeRequest, context: _Context
    ) -> csi_pb2.ControllerUnpublishVolumeResponse:
        parsed = requests.unpublish_volume(request)
        if parsed is not None:
            await self._exclusively(
                parsed.handle,
                "ControllerUnpublishVolume",
                lambda: self._attachments.unpublish(parsed.handle, parsed.node),
            )
        return csi_pb2.ControllerUnpublishVolumeResponse()

    async def ControllerExpandVolume(  # noqa: N802, D102
        self, request: csi_pb2.ControllerExpandVolumeRequest, context: _Context
    ) -> csi_pb2.ControllerExpandVolumeResponse:
        parsed = requests.expand_volume(request)
        size_bytes = await self._exclusively(
            parsed.handle, "ControllerExpandVolume", lambda: self._expansion.expand(parsed.handle, parsed.size)
        )
        return replies.expand_volume(size_bytes, is_block=parsed.is_block)

    async def ValidateVolumeCapabilities(  # noqa: N802, D102
        self, request: csi_pb2.ValidateVolumeCapabilitiesRequest, context: _Context
    ) -> csi_pb2.ValidateVolumeCapabilitiesResponse:
        parsed = requests.validate_volume(request)
        await self._volumes.get(parsed.handle)
        return replies.validate_volume(request, parsed)

    async def GetCapacity(  # noqa: N802, D102
        self, request: csi_pb2.GetCapacityRequest, context: _Context
    ) -> csi_pb2.GetCapacityResponse:
        parsed = requests.get_capacity(request)
        if not parsed.possible:
            return replies.get_capacity(Capacity(0, 0))
        return replies.get_capacity(self._capacities.get(parsed.storage, parsed.segment))

    async def ControllerGetCapabilities(  # noqa: N802, D102
        self, request: csi_pb2.ControllerGetCapabilitiesRequest, context: _Context
    ) -> csi_pb2.ControllerGetCapabilitiesResponse:
        return replies.controller_capabilities()

    async def drain(self) -> None:
        """Wait for the operations whose callers have given up."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _exclusively(self, handle: VolumeHandle, verb: str, act: Callable[[], Awaitable[T]]) -> T:
        """Run `act` as the only operation on the volume; Pending while another one runs."""
        key = f"{handle.region}/{handle.volume_name}"

        async def held() -> T:
            with self._in_flight.hold(key, verb):
                return await act()

        task = asyncio.create_task(held(), name=f"{verb} {handle}")
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # fetched: when the caller has given up, the line of the call was written then
