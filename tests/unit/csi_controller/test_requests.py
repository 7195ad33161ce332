from typing import Any

import pytest

from appkit.errors import DriverError, InvalidRequest, NotFound
from csi_controller import requests
from csi_controller.placement import Segment
from csikit.handles import NodeId
from csikit.pb import csi_pb2

HANDLE = "cluster-1/pve1/local-lvm/vm-9999-pvc-1"
_Mode = csi_pb2.VolumeCapability.AccessMode


def capability(mode: Any = _Mode.SINGLE_NODE_WRITER, *, block: bool = False, fs_type: str = "xfs") -> Any:
    message = csi_pb2.VolumeCapability(access_mode=_Mode(mode=mode))
    if block:
        message.block.SetInParent()
    else:
        message.mount.fs_type = fs_type
    return message


def create(**fields: Any) -> csi_pb2.CreateVolumeRequest:
    given: dict[str, Any] = {"name": "pvc-1", "volume_capabilities": [capability()], "parameters": {"storage": "s"}}
    return csi_pb2.CreateVolumeRequest(**(given | fields))


def test_create_reads_size_filesystem_and_topology() -> None:
    topology = csi_pb2.TopologyRequirement(
        requisite=[
            csi_pb2.Topology(segments={"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "b"})
        ],
        preferred=[
            csi_pb2.Topology(
                segments={
                    "topology.kubernetes.io/region": "eu",
                    "topology.kubernetes.io/zone": "rack-7",
                    "topology.proxmox.sinextra.dev/region": "r",
                    "topology.proxmox.sinextra.dev/node": "a",
                }
            )
        ],
    )
    new = requests.create_volume(
        create(
            capacity_range=csi_pb2.CapacityRange(required_bytes=5, limit_bytes=9), accessibility_requirements=topology
        )
    )
    assert (new.size.required_bytes, new.size.limit_bytes) == (5, 9)
    assert new.segments == (Segment("r", "a"), Segment("r", "b"))
    assert new.fs_type == "xfs"


def test_create_of_a_block_volume_has_no_filesystem() -> None:
    assert requests.create_volume(create(volume_capabilities=[capability(block=True)])).fs_type == ""


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (create(name=""), ["name"]),
        (create(volume_capabilities=[]), ["capability"]),
        (create(parameters={}), ["'storage' is required"]),
        (create(volume_capabilities=[capability(_Mode.MULTI_NODE_MULTI_WRITER)]), ["ReadWriteMany", "ReadWriteOnce"]),
        (create(volume_capabilities=[csi_pb2.VolumeCapability()]), ["access type"]),
        (create(volume_capabilities=[capability(fs_type="ntfs")]), ["fstype", "ntfs", "ext4 and xfs"]),
        (
            create(
                volume_content_source=csi_pb2.VolumeContentSource(
                    volume=csi_pb2.VolumeContentSource.VolumeSource(volume_id=HANDLE)
                )
            ),
            ["snapshot or another volume"],
        ),
    ],
)
def test_create_refuses(request_: csi_pb2.CreateVolumeRequest, words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        requests.create_volume(request_)
    for word in words:
        assert word in str(caught.value)


def test_delete_of_an_id_that_was_never_ours_is_nothing_to_do() -> None:
    assert requests.delete_volume(csi_pb2.DeleteVolumeRequest(volume_id="fake-vol-id")) is None
    assert requests.delete_volume(csi_pb2.DeleteVolumeRequest(volume_id=HANDLE)) is not None


@pytest.mark.parametrize("volume_id", ["", "r1/pve1/lvm/", "/pve1/lvm/vm-9999-x", "r1/pve1//vm-9999-x", "r/z/s/a,b=c"])
def test_a_damaged_id_is_never_guessed_at(volume_id: str) -> None:
    with pytest.raises(InvalidRequest):
        requests.delete_volume(csi_pb2.DeleteVolumeRequest(volume_id=volume_id))
    with pytest.raises(InvalidRequest):
        requests.unpublish_volume(csi_pb2.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id="n"))


def publish(**fields: Any) -> csi_pb2.ControllerPublishVolumeRequest:
    given: dict[str, Any] = {"volume_id": HANDLE, "node_id": "worker-1/111", "volume_capability": capability()}
    return csi_pb2.ControllerPublishVolumeRequest(**(given | fields))


def test_publish() -> None:
    parsed = requests.publish_volume(publish(readonly=True, volume_context={"storage": "s"}))
    assert (parsed.node, parsed.read_only, parsed.context) == (NodeId("worker-1", 111), True, {"storage": "s"})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"volume_id": ""}, InvalidRequest),
        ({"volume_id": "unknown"}, NotFound),
        ({"node_id": ""}, InvalidRequest),
        ({"node_id": "worker-1/abc"}, InvalidRequest),
        ({"volume_capability": None}, InvalidRequest),
        ({"volume_capability": capability(_Mode.MULTI_NODE_READER_ONLY)}, InvalidRequest),
    ],
)
def test_publish_refuses(fields: dict[str, Any], error: type[DriverError]) -> None:
    with pytest.raises(error):
        requests.publish_volume(publish(**fields))


def test_unpublish_with_and_without_node() -> None:
    with_node = requests.unpublish_volume(csi_pb2.ControllerUnpublishVolumeRequest(volume_id=HANDLE, node_id="w/111"))
    without = requests.unpublish_volume(csi_pb2.ControllerUnpublishVolumeRequest(volume_id=HANDLE))
    assert with_node is not None
    assert with_node.node == NodeId("w", 111)
    assert without is not None
    assert without.node is None
    assert requests.unpublish_volume(csi_pb2.ControllerUnpublishVolumeRequest(volume_id="fake")) is None


def test_expand() -> None:
    size = csi_pb2.CapacityRange(required_bytes=7)
    mount = requests.expand_volume(csi_pb2.ControllerExpandVolumeRequest(volume_id=HANDLE, capacity_range=size))
    block = requests.expand_volume(
        csi_pb2.ControllerExpandVolumeRequest(
            volume_id=HANDLE, capacity_range=size, volume_capability=capability(block=True)
        )
    )
    assert (mount.size.required_bytes, mount.is_block, block.is_block) == (7, False, True)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (csi_pb2.ControllerExpandVolumeRequest(volume_id=HANDLE), InvalidRequest),
        (csi_pb2.ControllerExpandVolumeRequest(capacity_range=csi_pb2.CapacityRange(required_bytes=1)), InvalidRequest),
        (
            csi_pb2.ControllerExpandVolumeRequest(
                volume_id="unknown", capacity_range=csi_pb2.CapacityRange(required_bytes=1)
            ),
            NotFound,
        ),
    ],
)
def test_expand_refuses(request_: csi_pb2.ControllerExpandVolumeRequest, error: type[DriverError]) -> None:
    with pytest.raises(error):
        requests.expand_volume(request_)


def test_validate_collects_objections() -> None:
    parsed = requests.validate_volume(
        csi_pb2.ValidateVolumeCapabilitiesRequest(
            volume_id=HANDLE,
            volume_capabilities=[capability(), capability(_Mode.MULTI_NODE_MULTI_WRITER)],
        )
    )
    assert len(parsed.objections) == 1
    assert "ReadWriteMany" in parsed.objections[0]


def test_capacity() -> None:
    segments = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "a"}
    parsed = requests.get_capacity(
        csi_pb2.GetCapacityRequest(
            parameters={"storage": "s", "ssd": "x"}, accessible_topology=csi_pb2.Topology(segments=segments)
        )
    )
    assert (parsed.storage, parsed.segment, parsed.possible) == ("s", Segment("r", "a"), True)
    empty = requests.get_capacity(csi_pb2.GetCapacityRequest())
    assert (empty.storage, empty.segment, empty.possible) == ("", None, True)
    shared = [capability(_Mode.MULTI_NODE_MULTI_WRITER)]
    assert not requests.get_capacity(csi_pb2.GetCapacityRequest(volume_capabilities=shared)).possible
