"""Over a real socket: what kubelet and csi-sanity see."""

import json
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from prometheus_client import CollectorRegistry

from appkit.metrics import Metrics
from csi_node.servicer import NodeServicer
from csi_node.status_codes import ROWS
from csikit.interceptors import CallInterceptor
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.status import StatusTable
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.grpc_fixtures import (  # noqa: F401 - fixtures
    grpc_addr,
    grpc_channel,
    grpc_create_channel,
    grpc_server,
    grpc_stub,
)
from tests.fakes.node_calls import MIB, capability

Stub = csi_pb2_grpc.NodeStub


class Api(httpx.AsyncBaseTransport):
    """An API server whose one Node is initialised, or not yet."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=json.dumps({"metadata": {"name": "worker-11", "labels": self.labels}}))


@pytest.fixture(scope="module")
def api() -> Api:
    return Api()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, api: Api) -> FakeMachine:
    return FakeMachine(tmp_path_factory.mktemp("node") / "node", device_timeout_s=0.3, kube_transport=api)


@pytest.fixture(scope="module")
def grpc_add_to_server() -> Any:
    return csi_pb2_grpc.add_NodeServicer_to_server


@pytest.fixture(scope="module")
def grpc_servicer(machine: FakeMachine) -> NodeServicer:
    return machine.node


@pytest.fixture(scope="module")
def grpc_stub_cls() -> Any:
    return csi_pb2_grpc.NodeStub


@pytest.fixture(scope="module")
def grpc_interceptors() -> list[Any]:
    return [CallInterceptor(StatusTable(ROWS), Metrics(CollectorRegistry()))]


@pytest.fixture(autouse=True)
def _empty(machine: FakeMachine) -> Iterator[None]:
    yield
    machine.host.lines.clear()


def code(error: pytest.ExceptionInfo[grpc.RpcError]) -> grpc.StatusCode:
    found: Any = error.value
    answer: grpc.StatusCode = found.code()
    return answer


def test_capabilities(grpc_stub: Stub) -> None:  # noqa: F811 - a fixture
    reply = grpc_stub.NodeGetCapabilities(csi_pb2.NodeGetCapabilitiesRequest())
    names = {csi_pb2.NodeServiceCapability.RPC.Type.Name(each.rpc.type) for each in reply.capabilities}
    assert names == {"STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME", "GET_VOLUME_STATS", "SINGLE_NODE_MULTI_WRITER"}


def test_info_waits_for_the_cloud_controller_manager(grpc_stub: Stub, machine: FakeMachine, api: Api) -> None:  # noqa: F811
    api.labels = {}
    with pytest.raises(grpc.RpcError, match="cloud-controller-manager has not initialised it") as caught:
        grpc_stub.NodeGetInfo(csi_pb2.NodeGetInfoRequest())
    assert code(caught) is grpc.StatusCode.UNAVAILABLE
    topology = {"topology.kubernetes.io/region": "cluster-1", "topology.kubernetes.io/zone": "pve1"}
    api.labels = topology
    reply = grpc_stub.NodeGetInfo(csi_pb2.NodeGetInfoRequest())
    assert (reply.node_id, reply.max_volumes_per_node) == ("worker-11", 24)
    assert dict(reply.accessible_topology.segments) == topology
    smbios = machine.root / "sys/firmware/dmi/tables/DMI"
    smbios.parent.mkdir(parents=True)
    smbios.write_bytes(bytes([1, 8, 0, 0, 0, 0, 0, 1]) + b"h=pve1;i=112\0\0")
    assert grpc_stub.NodeGetInfo(csi_pb2.NodeGetInfoRequest()).node_id == "worker-11/112"


def test_a_volumes_life(grpc_stub: Stub, machine: FakeMachine) -> None:  # noqa: F811
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    stage = machine.stage_request(volume)
    target = machine.target(volume)
    publish = csi_pb2.NodePublishVolumeRequest(
        volume_id=volume.handle,
        publish_context=stage.publish_context,
        staging_target_path=stage.staging_target_path,
        target_path=str(target),
        volume_capability=stage.volume_capability,
    )
    with pytest.raises(grpc.RpcError) as caught:
        grpc_stub.NodePublishVolume(publish)
    assert code(caught) is grpc.StatusCode.FAILED_PRECONDITION
    for _ in range(2):
        grpc_stub.NodeStageVolume(stage)
    for _ in range(2):
        grpc_stub.NodePublishVolume(publish)
    stats = grpc_stub.NodeGetVolumeStats(
        csi_pb2.NodeGetVolumeStatsRequest(volume_id=volume.handle, volume_path=str(target))
    )
    assert stats.usage[0].total == 512 * MIB
    machine.grow(disk, 1024)
    expanded = grpc_stub.NodeExpandVolume(
        csi_pb2.NodeExpandVolumeRequest(
            volume_id=volume.handle,
            volume_path=str(target),
            capacity_range=csi_pb2.CapacityRange(required_bytes=1024 * MIB),
        )
    )
    assert expanded.capacity_bytes == 1024 * MIB
    for _ in range(2):
        grpc_stub.NodeUnpublishVolume(
            csi_pb2.NodeUnpublishVolumeRequest(volume_id=volume.handle, target_path=str(target))
        )
    assert not target.exists()
    for _ in range(2):
        grpc_stub.NodeUnstageVolume(
            csi_pb2.NodeUnstageVolumeRequest(volume_id=volume.handle, staging_target_path=stage.staging_target_path)
        )
    assert machine.mounted() == []
    machine.unplug(disk)


def test_disk_that_is_not_there_is_retryable(grpc_stub: Stub, machine: FakeMachine) -> None:  # noqa: F811
    with pytest.raises(grpc.RpcError, match="no disk with WWN 0x5") as caught:
        grpc_stub.NodeStageVolume(machine.stage_request(machine.volume("pvc-2")))
    assert code(caught) is grpc.StatusCode.UNAVAILABLE


def test_host_error_is_retryable(grpc_stub: Stub, machine: FakeMachine) -> None:  # noqa: F811
    """The staging path's parent is a file: an errno, and no bug of ours."""
    volume = machine.volume("pvc-3")
    machine.plug(volume, "sdc")
    machine.staging(volume).parent.parent.mkdir(parents=True, exist_ok=True)
    machine.staging(volume).parent.write_text("")
    with pytest.raises(grpc.RpcError) as caught:
        grpc_stub.NodeStageVolume(machine.stage_request(volume))
    assert code(caught) is grpc.StatusCode.UNAVAILABLE


def test_what_csi_sanity_asks_for_without_fields(grpc_stub: Stub, machine: FakeMachine) -> None:  # noqa: F811
    """The negative cases of csi-test's node suite, with their codes."""
    path = str(machine.root / "kubelet/pods/x")
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    missing = grpc.StatusCode.NOT_FOUND
    cases: list[tuple[Any, Any, grpc.StatusCode]] = [
        (grpc_stub.NodeStageVolume, csi_pb2.NodeStageVolumeRequest(), invalid),
        (grpc_stub.NodeStageVolume, csi_pb2.NodeStageVolumeRequest(volume_id="id"), invalid),
        (
            grpc_stub.NodeStageVolume,
            csi_pb2.NodeStageVolumeRequest(volume_id="id", staging_target_path=path, publish_context={"a": "b"}),
            invalid,
        ),
        (grpc_stub.NodeUnstageVolume, csi_pb2.NodeUnstageVolumeRequest(staging_target_path=path), invalid),
        (grpc_stub.NodeUnstageVolume, csi_pb2.NodeUnstageVolumeRequest(volume_id="id"), invalid),
        (grpc_stub.NodePublishVolume, csi_pb2.NodePublishVolumeRequest(), invalid),
        (grpc_stub.NodePublishVolume, csi_pb2.NodePublishVolumeRequest(volume_id="id"), invalid),
        (grpc_stub.NodePublishVolume, csi_pb2.NodePublishVolumeRequest(volume_id="id", target_path=path), invalid),
        (grpc_stub.NodeUnpublishVolume, csi_pb2.NodeUnpublishVolumeRequest(target_path=path), invalid),
        (grpc_stub.NodeUnpublishVolume, csi_pb2.NodeUnpublishVolumeRequest(volume_id="id"), invalid),
        (grpc_stub.NodeGetVolumeStats, csi_pb2.NodeGetVolumeStatsRequest(volume_path="some/path"), invalid),
        (grpc_stub.NodeGetVolumeStats, csi_pb2.NodeGetVolumeStatsRequest(volume_id="id"), invalid),
        (
            grpc_stub.NodeGetVolumeStats,
            csi_pb2.NodeGetVolumeStatsRequest(volume_id="id", volume_path="some/path"),
            missing,
        ),
        (grpc_stub.NodeExpandVolume, csi_pb2.NodeExpandVolumeRequest(volume_path="some/path"), invalid),
        (grpc_stub.NodeExpandVolume, csi_pb2.NodeExpandVolumeRequest(volume_id="id"), invalid),
        (grpc_stub.NodeExpandVolume, csi_pb2.NodeExpandVolumeRequest(volume_id="id", volume_path="some/path"), missing),
    ]
    for rpc, request, expected in cases:
        with pytest.raises(grpc.RpcError) as caught:
            rpc(request)
        assert code(caught) is expected, request


def test_encryption_is_refused(grpc_stub: Stub, machine: FakeMachine) -> None:  # noqa: F811
    request = machine.stage_request(machine.volume("pvc-4"))
    request.secrets["encryption-passphrase"] = "hunter2-hunter2"
    with pytest.raises(grpc.RpcError, match="not stored unencrypted") as caught:
        grpc_stub.NodeStageVolume(request)
    assert code(caught) is grpc.StatusCode.UNIMPLEMENTED
    assert capability().HasField("mount")
