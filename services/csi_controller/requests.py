"""CSI requests → validated values. Every INVALID_ARGUMENT that a request alone can cause is born here. Pure.

Must not look anything up. An id that nobody ever gave out cannot exist: where the protocol wants NOT_FOUND for that, it
is NOT_FOUND; an id of our shape that is damaged is INVALID_ARGUMENT, since guessing at it could hit another volume.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appkit.errors import InvalidRequest, NotFound
from csi_controller.parameters import parse_parameters
from csi_controller.placement import Segment
from csi_controller.sizes import SizeRange
from csi_controller.volumes import NewVolume
from csikit import contract
from csikit.capabilities import Capability, check_supported, find_objection, parse_capabilities, parse_capability
from csikit.handles import NodeId, VolumeHandle, parse_handle, parse_node_id
from csikit.pb import csi_pb2


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """ControllerPublishVolume."""

    handle: VolumeHandle
    node: NodeId
    read_only: bool
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnpublishRequest:
    """ControllerUnpublishVolume; `node` None: from every node."""

    handle: VolumeHandle
    node: NodeId | None


@dataclass(frozen=True, slots=True)
class ExpandRequest:
    """ControllerExpandVolume; `is_block`: there is no filesystem to grow on the node."""

    handle: VolumeHandle
    size: SizeRange
    is_block: bool


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """ValidateVolumeCapabilities; `objections`: why the volume cannot be used so, empty when it can."""

    handle: VolumeHandle
    objections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """GetCapacity; `possible` False: no volume of this driver has the capabilities asked about."""

    storage: str
    segment: Segment | None
    possible: bool


def create_volume(request: csi_pb2.CreateVolumeRequest) -> NewVolume:
    """Raises InvalidRequest."""
    if not request.name:
        raise InvalidRequest("no volume name is given")
    capabilities = _supported(parse_capabilities(request.volume_capabilities))
    if request.HasField("volume_content_source"):
        raise InvalidRequest("volumes cannot be made from a snapshot or another volume by this release")
    for each in capabilities:
        if each.fs_type not in {"", *contract.FILESYSTEMS}:
            raise InvalidRequest(
                f"csi.storage.k8s.io/fstype: file system {each.fs_type!r} is not supported; "
                f"{' and '.join(contract.FILESYSTEMS)} are"
            )
    topology = request.accessibility_requirements
    return NewVolume(
        name=request.name,
        size=_size(request.capacity_range),
        parameters=parse_parameters(request.parameters, request.mutable_parameters),
        segments=tuple(_segment(each.segments) for each in [*topology.preferred, *topology.requisite]),
        fs_type=next((each.fs_type for each in capabilities if each.access == "mount"), ""),
    )


def delete_volume(request: csi_pb2.DeleteVolumeRequest) -> VolumeHandle | None:
    """None for an id that nobody ever gave out: there is nothing to delete."""
    try:
        return _handle(request.volume_id)
    except NotFound:
        return None


def publish_volume(request: csi_pb2.ControllerPublishVolumeRequest) -> PublishRequest:
    """Raises InvalidRequest, NotFound."""
    _check_given(request.volume_id)
    if not request.node_id:
        raise InvalidRequest("no node_id is given")
    if not request.HasField("volume_capability"):
        raise InvalidRequest("no volume_capability is given")
    check_supported(parse_capability(request.volume_capability))
    return PublishRequest(
        handle=_handle(request.volume_id),
        node=parse_node_id(request.node_id),
        read_only=request.readonly,
        context=dict(request.volume_context),
    )


def unpublish_volume(request: csi_pb2.ControllerUnpublishVolumeRequest) -> UnpublishRequest | None:
    """None for an id that nobody ever gave out: no VM can have it."""
    node = parse_node_id(request.node_id) if request.node_id else None
    try:
        return UnpublishRequest(_handle(request.volume_id), node)
    except NotFound:
        return None


def expand_volume(request: csi_pb2.ControllerExpandVolumeRequest) -> ExpandRequest:
    """Raises InvalidRequest, NotFound."""
    _check_given(request.volume_id)
    if not request.HasField("capacity_range") or request.capacity_range.required_bytes <= 0:
        raise InvalidRequest("capacity_range.required_bytes is needed to grow a volume")
    is_block = False
    if request.HasField("volume_capability"):
        capability = parse_capability(request.volume_capability)
        check_supported(capability)
        is_block = capability.access == "block"
    return ExpandRequest(_handle(request.volume_id), _size(request.capacity_range), is_block)


def validate_volume(request: csi_pb2.ValidateVolumeCapabilitiesRequest) -> ValidateRequest:
    """Raises InvalidRequest, NotFound."""
    _check_given(request.volume_id)
    capabilities = parse_capabilities(request.volume_capabilities)
    objections = dict.fromkeys(text for each in capabilities if (text := find_objection(each)))
    return ValidateRequest(_handle(request.volume_id), tuple(objections))


def get_capacity(request: csi_pb2.GetCapacityRequest) -> CapacityRequest:
    """Raises InvalidRequest."""
    segment = _segment(request.accessible_topology.segments) if request.HasField("accessible_topology") else None
    capabilities = parse_capabilities(request.volume_capabilities) if request.volume_capabilities else ()
    return CapacityRequest(
        storage=request.parameters.get("storage", ""),
        segment=segment,
        possible=not any(find_objection(each) for each in capabilities),
    )


def _check_given(volume_id: str) -> None:
    if not volume_id:
        raise InvalidRequest("no volume_id is given")


def _handle(volume_id: str) -> VolumeHandle:
    """Raises InvalidRequest for nothing or a damaged id, NotFound for one that was never ours."""
    _check_given(volume_id)
    if volume_id.count("/") < 3:
        raise NotFound(f"there is no volume {volume_id!r}: ids of this driver are <region>/<zone>/<storage>/<disk>")
    return parse_handle(volume_id)


def _size(message: csi_pb2.CapacityRange) -> SizeRange:
    return SizeRange(message.required_bytes, message.limit_bytes)


def _segment(segments: Mapping[str, str]) -> Segment:
    """Labels of this project's own (set for nodes whose general labels mean something else) win."""
    zones = (contract.LABEL_NODE, contract.LABEL_ZONE, contract.TOPOLOGY_ZONE)
    return Segment(
        region=segments.get(contract.LABEL_REGION) or segments.get(contract.TOPOLOGY_REGION, ""),
        zone=next((segments[key] for key in zones if segments.get(key)), ""),
    )


def _supported(capabilities: tuple[Capability, ...]) -> tuple[Capability, ...]:
    for capability in capabilities:
        check_supported(capability)
    return capabilities
