"""pytest-grpc's synchronous stubs against the real asyncio server, through the fixtures that replace the plugin's."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from appkit.errors import Pending
from appkit.metrics import Metrics
from csikit.interceptors import CallInterceptor
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.status import StatusTable
from tests.fakes.grpc_fixtures import (
    ServerThread,
    grpc_addr,
    grpc_channel,
    grpc_create_channel,
    grpc_server,
    grpc_stub,
)

__all__ = ["grpc_addr", "grpc_channel", "grpc_create_channel", "grpc_server", "grpc_stub"]


class Rendezvous(csi_pb2_grpc.IdentityServicer):
    """Answers GetPluginInfo only when two calls are inside at once; a blocked loop would never let the second in."""

    def __init__(self) -> None:
        self.inside = 0
        self.both = asyncio.Event()
        self.thread = ""

    async def GetPluginInfo(self, request: Any, context: Any) -> csi_pb2.GetPluginInfoResponse:  # noqa: N802
        self.thread = threading.current_thread().name
        self.inside += 1
        if self.inside == 2:
            self.both.set()
        await self.both.wait()
        return csi_pb2.GetPluginInfoResponse(name="rendezvous")

    async def Probe(self, request: Any, context: Any) -> csi_pb2.ProbeResponse:  # noqa: N802
        raise Pending("still starting")


@pytest.fixture(scope="module")
def grpc_servicer() -> Rendezvous:
    return Rendezvous()


@pytest.fixture(scope="module")
def grpc_add_to_server() -> Callable[..., None]:
    return csi_pb2_grpc.add_IdentityServicer_to_server


@pytest.fixture(scope="module")
def grpc_stub_cls() -> type[csi_pb2_grpc.IdentityStub]:
    return csi_pb2_grpc.IdentityStub


@pytest.fixture(scope="module")
def grpc_interceptors() -> list[Any]:
    return [CallInterceptor(StatusTable(), Metrics(CollectorRegistry()))]


def test_synchronous_stubs_are_answered_concurrently(
    grpc_stub: csi_pb2_grpc.IdentityStub, grpc_servicer: Rendezvous, grpc_server: ServerThread
) -> None:
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(grpc_stub.GetPluginInfo, csi_pb2.GetPluginInfoRequest(), timeout=5) for _ in range(2)]
        assert [call.result().name for call in calls] == ["rendezvous"] * 2
    assert grpc_servicer.thread.startswith("grpc unix:")
    assert grpc_server.address.startswith("unix:")


def test_interceptors_are_used(grpc_stub: csi_pb2_grpc.IdentityStub) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        grpc_stub.Probe(csi_pb2.ProbeRequest(), timeout=5)
    call: Any = raised.value
    assert (call.code(), call.details()) == (grpc.StatusCode.ABORTED, "still starting")


def test_a_failed_start_is_raised_where_the_server_was_wanted() -> None:
    wanted = ServerThread("unix:/no/such/folder/csi.sock", lambda *_: None, None)
    with pytest.raises(Exception, match="/no/such/folder does not exist"), wanted:
        pass
