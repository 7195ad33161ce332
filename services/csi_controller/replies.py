"""Domain values → CSI replies. Pure; must not decide anything."""

from csi_controller.attachments import Published
from csi_controller.capacity import Capacity
from csi_controller.requests import ValidateRequest
from csi_controller.volumes import Volume
from csikit import contract
from csikit.pb import csi_pb2

_Rpc = csi_pb2.ControllerServiceCapability.RPC


def create_volume(volume: Volume) -> csi_pb2.CreateVolumeResponse:
    """Topology: the host for local storage; the region, or its hosts that have the storage, for shared."""
    region = {contract.TOPOLOGY_REGION: volume.handle.region}
    zones = [{contract.TOPOLOGY_ZONE: zone} for zone in volume.zones] if volume.zones is not None else [{}]
    segments: list[dict[str, str]] = [{**region, **zone} for zone in zones]
    return csi_pb2.CreateVolumeResponse(
        volume=csi_pb2.Volume(
            volume_id=str(volume.handle),
            capacity_bytes=volume.size_bytes,
            volume_context=dict(volume.context),
            accessible_topology=[csi_pb2.Topology(segments=each) for each in segments],
        )
    )


def publish_volume(published: Published) -> csi_pb2.ControllerPublishVolumeResponse:
    """What the node needs to find the disk."""
    return csi_pb2.ControllerPublishVolumeResponse(
        publish_context={
            contract.PUBLISH_DEVICE_PATH: contract.device_path(published.wwn),
            contract.PUBLISH_LUN: str(published.slot),
        }
    )


def expand_volume(size_bytes: int, *, is_block: bool) -> csi_pb2.ControllerExpandVolumeResponse:
    """A raw block volume has nothing that the node would have to grow."""
    return csi_pb2.ControllerExpandVolumeResponse(capacity_bytes=size_bytes, node_expansion_required=not is_block)


def validate_volume(
    request: csi_pb2.ValidateVolumeCapabilitiesRequest, parsed: ValidateRequest
) -> csi_pb2.ValidateVolumeCapabilitiesResponse:
    """Confirmed as asked, or the objections."""
    if parsed.objections:
        return csi_pb2.ValidateVolumeCapabilitiesResponse(message="; ".join(parsed.objections))
    return csi_pb2.ValidateVolumeCapabilitiesResponse(
        confirmed=csi_pb2.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=dict(request.volume_context),
            volume_capabilities=request.volume_capabilities,
            parameters=dict(request.parameters),
        )
    )


def get_capacity(capacity: Capacity) -> csi_pb2.GetCapacityResponse:
    """Both figures are set, so that a scheduler does not add up what lies on several hosts."""
    response = csi_pb2.GetCapacityResponse(available_capacity=capacity.available_bytes)
    response.maximum_volume_size.value = capacity.largest_bytes
    return response


def controller_capabilities() -> csi_pb2.ControllerGetCapabilitiesResponse:
    """Exactly what works."""
    kinds = (
        _Rpc.CREATE_DELETE_VOLUME,
        _Rpc.PUBLISH_UNPUBLISH_VOLUME,
        _Rpc.PUBLISH_READONLY,
        _Rpc.GET_CAPACITY,
        _Rpc.EXPAND_VOLUME,
        _Rpc.SINGLE_NODE_MULTI_WRITER,
    )
    return csi_pb2.ControllerGetCapabilitiesResponse(
        capabilities=[csi_pb2.ControllerServiceCapability(rpc=_Rpc(type=kind)) for kind in kinds]
    )
