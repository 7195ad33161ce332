"""The Identity service, the same in the controller and the node service; what differs is passed in.

Its answers to Probe steer restarts and the start of sidecars, so `probe` must answer from memory and quickly.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from google.protobuf.wrappers_pb2 import BoolValue
from grpc.aio import ServicerContext

from csikit.pb import csi_pb2, csi_pb2_grpc


def service_capability(kind: csi_pb2.PluginCapability.Service.Type.ValueType) -> csi_pb2.PluginCapability:
    """One row of GetPluginCapabilities: a service of the plugin, or that topology counts."""
    return csi_pb2.PluginCapability(service=csi_pb2.PluginCapability.Service(type=kind))


def expansion_capability(kind: csi_pb2.PluginCapability.VolumeExpansion.Type.ValueType) -> csi_pb2.PluginCapability:
    """One row of GetPluginCapabilities: in which state a volume can grow."""
    return csi_pb2.PluginCapability(volume_expansion=csi_pb2.PluginCapability.VolumeExpansion(type=kind))


class IdentityServicer(csi_pb2_grpc.IdentityServicer):
    """`probe` says whether the service can do its work now; `name` is the driver's, `version` the release's."""

    def __init__(
        self,
        name: str,
        version: str,
        capabilities: Iterable[csi_pb2.PluginCapability],
        probe: Callable[[], Awaitable[bool]],
    ) -> None:
        self._name = name
        self._version = version
        self._capabilities = tuple(capabilities)
        self._probe = probe

    async def GetPluginInfo(  # noqa: N802, D102 - the protocol's name and meaning
        self, request: csi_pb2.GetPluginInfoRequest, context: ServicerContext[Any, Any]
    ) -> csi_pb2.GetPluginInfoResponse:
        return csi_pb2.GetPluginInfoResponse(name=self._name, vendor_version=self._version)

    async def GetPluginCapabilities(  # noqa: N802, D102
        self, request: csi_pb2.GetPluginCapabilitiesRequest, context: ServicerContext[Any, Any]
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        return csi_pb2.GetPluginCapabilitiesResponse(capabilities=self._capabilities)

    async def Probe(  # noqa: N802, D102
        self, request: csi_pb2.ProbeRequest, context: ServicerContext[Any, Any]
    ) -> csi_pb2.ProbeResponse:
        return csi_pb2.ProbeResponse(ready=BoolValue(value=await self._probe()))
