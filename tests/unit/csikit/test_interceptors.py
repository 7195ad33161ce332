"""Every call over a real socket: its code, its one line, its metric, and no secret anywhere."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import StatusCode
from prometheus_client import CollectorRegistry

from appkit import errors, logs
from appkit.metrics import Metrics
from csikit.interceptors import CallInterceptor
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.server import CsiServer, serve
from csikit.status import StatusTable

HANDLE = "cluster-1/pve1/local-lvm/vm-9999-pvc-1"
PLANTED = "c0rrect-h0rse/battery=staple"
CREATE = csi_pb2.CreateVolumeRequest(name="pvc-1")
DELETE = csi_pb2.DeleteVolumeRequest(volume_id=HANDLE)
STAGE = csi_pb2.NodeStageVolumeRequest(volume_id=HANDLE, secrets={"encryption-passphrase": PLANTED})


class Foreign(Exception):
    """Not in the default table."""


class Servicer(
    csi_pb2_grpc.IdentityServicer,
    csi_pb2_grpc.ControllerServicer,
    csi_pb2_grpc.NodeServicer,
    csi_pb2_grpc.SnapshotMetadataServicer,
):
    """CreateVolume, NodeStageVolume and the streams do what a test asks for; DeleteVolume and others are left out."""

    def __init__(self) -> None:
        self.work: Callable[[Any], Awaitable[None]] = self.nothing
        self.entered = asyncio.Event()

    async def nothing(self, request: Any) -> None:
        return None

    async def CreateVolume(self, request: Any, context: Any) -> csi_pb2.CreateVolumeResponse:  # noqa: N802
        self.entered.set()
        await self.work(request)
        return csi_pb2.CreateVolumeResponse(volume=csi_pb2.Volume(volume_id=HANDLE))

    async def NodeStageVolume(self, request: Any, context: Any) -> csi_pb2.NodeStageVolumeResponse:  # noqa: N802
        await self.work(request)
        return csi_pb2.NodeStageVolumeResponse()

    async def NodeGetInfo(self, request: Any, context: Any) -> csi_pb2.NodeGetInfoResponse:  # noqa: N802
        await context.abort(StatusCode.FAILED_PRECONDITION, "said by the servicer itself")
        raise AssertionError("unreachable")

    async def Probe(self, request: Any, context: Any) -> csi_pb2.ProbeResponse:  # noqa: N802
        return csi_pb2.ProbeResponse()

    async def GetMetadataAllocated(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[csi_pb2.GetMetadataAllocatedResponse]:
        yield csi_pb2.GetMetadataAllocatedResponse(volume_capacity_bytes=1)
        await self.work(request)
        yield csi_pb2.GetMetadataAllocatedResponse(volume_capacity_bytes=2)


class Bench:
    """One served servicer, its log lines and metrics."""

    def __init__(self, servicer: Servicer, server: CsiServer, channel: grpc.aio.Channel, stream: io.StringIO) -> None:
        self.servicer = servicer
        self.server = server
        self.identity: Any = csi_pb2_grpc.IdentityStub(channel)
        self.controller: Any = csi_pb2_grpc.ControllerStub(channel)
        self.node: Any = csi_pb2_grpc.NodeStub(channel)
        self.metadata: Any = csi_pb2_grpc.SnapshotMetadataStub(channel)
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        every = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in every if line["logger"].startswith(("csikit", "domain"))]

    def line(self) -> dict[str, Any]:
        """The one line there is."""
        (line,) = self.lines()
        return line

    async def eventually_line(self) -> dict[str, Any]:
        """The one line, which is written after the caller has gone."""
        async with asyncio.timeout(2):
            while not self.lines():  # noqa: ASYNC110 - the line is what is waited for; nothing else tells
                await asyncio.sleep(0.001)
        return self.line()

    def calls_will_raise(self, error: BaseException) -> None:
        async def work(request: Any) -> None:
            raise error

        self.servicer.work = work


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The log of the process, as a service writes it."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    stream = io.StringIO()
    logs.configure(format="json", level="INFO", stream=stream)
    yield stream
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.fixture
async def bench(
    tmp_path_factory: pytest.TempPathFactory, registry: CollectorRegistry, stream: io.StringIO
) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path_factory.mktemp("s"), registry, stream) as bench:
        yield bench


@asynccontextmanager
async def open_bench(folder: Path, registry: CollectorRegistry, stream: io.StringIO) -> AsyncIterator[Bench]:
    servicer = Servicer()
    interceptor = CallInterceptor(StatusTable({Foreign: StatusCode.UNAVAILABLE}), Metrics(registry))

    def register(server: grpc.aio.Server) -> None:
        csi_pb2_grpc.add_IdentityServicer_to_server(servicer, server)
        csi_pb2_grpc.add_ControllerServicer_to_server(servicer, server)
        csi_pb2_grpc.add_NodeServicer_to_server(servicer, server)
        csi_pb2_grpc.add_SnapshotMetadataServicer_to_server(servicer, server)

    async with AsyncExitStack() as stack:
        server = await serve(str(folder / "csi.sock"), register, interceptors=[interceptor])
        stack.push_async_callback(server.stop, 0)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
        yield Bench(servicer, server, channel, stream)


def count(registry: CollectorRegistry, method: str, code: str) -> float:
    labels = {"method_name": method, "grpc_status_code": code}
    return registry.get_sample_value("csi_plugin_operations_seconds_count", labels) or 0.0


async def refused(call: Awaitable[Any]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


async def test_success_is_one_line_and_one_count(bench: Bench, registry: CollectorRegistry) -> None:
    reply = await bench.controller.CreateVolume(CREATE, timeout=5)
    assert reply.volume.volume_id == HANDLE
    line = bench.line()
    assert {key: line[key] for key in ("level", "message", "method", "volume", "code")} == {
        "level": "INFO",
        "message": "done",
        "method": "CreateVolume",
        "volume": "pvc-1",
        "code": "OK",
    }
    assert 0 <= line["duration_s"] < 5
    assert len(line["call"]) == 8
    assert count(registry, "CreateVolume", "OK") == 1


async def test_what_is_polled_is_counted_but_not_logged(bench: Bench, registry: CollectorRegistry) -> None:
    await bench.identity.Probe(csi_pb2.ProbeRequest(), timeout=5)
    assert bench.lines() == []
    assert count(registry, "Probe", "OK") == 1
    logging.getLogger().setLevel(logging.DEBUG)
    await bench.identity.Probe(csi_pb2.ProbeRequest(), timeout=5)
    assert bench.line()["request"] == "{}"


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (errors.InvalidRequest("size is odd"), StatusCode.INVALID_ARGUMENT, "InvalidArgument"),
        (errors.Pending("size is odd"), StatusCode.ABORTED, "Aborted"),
        (
            errors.Denied("size is odd", privilege="VM.Audit", path="/vms/1"),
            StatusCode.PERMISSION_DENIED,
            "PermissionDenied",
        ),
        (Foreign("size is odd"), StatusCode.UNAVAILABLE, "Unavailable"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_planned_errors(
    bench: Bench, registry: CollectorRegistry, error: Exception, code: StatusCode, name: str
) -> None:
    bench.calls_will_raise(error)
    assert await refused(bench.controller.CreateVolume(CREATE, timeout=5)) == (code, "size is odd")
    line = bench.line()
    assert (line["level"], line["message"], line["code"]) == ("WARNING", "size is odd", name)
    assert line["request"] == "{name='pvc-1'}"
    assert "exception" not in line
    assert count(registry, "CreateVolume", name) == 1


async def test_an_unplanned_error_is_told_by_number_and_its_text_stays_in_the_log(
    bench: Bench, registry: CollectorRegistry
) -> None:
    bench.calls_will_raise(KeyError("the inside of the driver"))
    code, details = await refused(bench.controller.CreateVolume(CREATE, timeout=5))
    line = bench.line()
    assert code is StatusCode.INTERNAL
    assert "inside" not in details
    assert f"call={line['call']}" in details
    assert (line["level"], line["code"]) == ("ERROR", "Internal")
    assert "Traceback" in line["exception"]
    assert "KeyError: 'the inside of the driver'" in line["exception"]
    assert count(registry, "CreateVolume", "Internal") == 1


async def test_an_error_that_is_our_fault_by_class_has_its_text_and_a_traceback(bench: Bench) -> None:
    bench.calls_will_raise(errors.DriverError("impossible state"))
    assert await refused(bench.controller.CreateVolume(CREATE, timeout=5)) == (StatusCode.INTERNAL, "impossible state")
    assert "Traceback" in bench.line()["exception"]


async def test_an_rpc_that_is_left_out_is_unimplemented(bench: Bench, registry: CollectorRegistry) -> None:
    assert await refused(bench.controller.DeleteVolume(DELETE, timeout=5)) == (
        StatusCode.UNIMPLEMENTED,
        "DeleteVolume is not implemented by this driver",
    )
    line = bench.line()
    assert (line["level"], line["code"], line["volume"]) == ("WARNING", "Unimplemented", HANDLE)
    assert count(registry, "DeleteVolume", "Unimplemented") == 1


async def test_a_code_that_a_servicer_sets_is_kept(bench: Bench) -> None:
    answer = await refused(bench.node.NodeGetInfo(csi_pb2.NodeGetInfoRequest(), timeout=5))
    assert answer == (StatusCode.FAILED_PRECONDITION, "said by the servicer itself")
    assert bench.line()["code"] == "FailedPrecondition"


async def wait_forever(request: Any) -> None:
    await asyncio.Event().wait()


async def test_a_deadline_is_one_line(bench: Bench, registry: CollectorRegistry) -> None:
    bench.servicer.work = wait_forever
    code, _ = await refused(bench.controller.CreateVolume(CREATE, timeout=0.05))
    assert code is StatusCode.DEADLINE_EXCEEDED
    line = await bench.eventually_line()
    assert (line["level"], line["code"], line["volume"]) == ("WARNING", "DeadlineExceeded", "pvc-1")
    assert "deadline" in line["message"]
    assert count(registry, "CreateVolume", "DeadlineExceeded") == 1


async def test_a_caller_that_gives_up_is_one_line(bench: Bench, registry: CollectorRegistry) -> None:
    bench.servicer.work = wait_forever
    call = bench.controller.CreateVolume(CREATE, timeout=60)
    waiting = asyncio.ensure_future(call)
    await bench.servicer.entered.wait()
    call.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    line = await bench.eventually_line()
    assert (line["level"], line["code"]) == ("WARNING", "Cancelled")
    assert count(registry, "CreateVolume", "Cancelled") == 1


async def test_the_end_of_the_drain_is_one_line(bench: Bench) -> None:
    bench.servicer.work = wait_forever
    waiting = asyncio.ensure_future(bench.controller.CreateVolume(CREATE, timeout=60))
    await bench.servicer.entered.wait()
    await bench.server.stop(drain_s=0)
    await asyncio.gather(waiting, return_exceptions=True)
    assert (await bench.eventually_line())["code"] == "Cancelled"


async def test_a_cancellation_from_inside_is_answered_not_left_hanging(bench: Bench) -> None:
    async def work(request: Any) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    bench.servicer.work = work
    code, _ = await refused(bench.controller.CreateVolume(CREATE, timeout=5))
    assert code is StatusCode.INTERNAL
    assert "CancelledError" in bench.line()["exception"]


async def test_lines_of_the_domain_carry_the_call(bench: Bench) -> None:
    async def work(request: Any) -> None:
        logs.get_logger("domain").info("found it", extra={"slot": 3})

    bench.servicer.work = work
    await bench.controller.CreateVolume(CREATE, timeout=5)
    inner, outcome = bench.lines()
    assert (inner["method"], inner["volume"], inner["slot"]) == ("CreateVolume", "pvc-1", 3)
    assert inner["call"] == outcome["call"]


async def test_calls_at_once_do_not_mix_their_fields(bench: Bench) -> None:
    async def work(request: Any) -> None:
        await asyncio.sleep(0.001)
        logs.get_logger("domain").info(request.name)

    bench.servicer.work = work
    names = [f"pvc-{number}" for number in range(20)]
    await asyncio.gather(*(bench.controller.CreateVolume(csi_pb2.CreateVolumeRequest(name=name)) for name in names))
    seen = [line for line in bench.lines() if line["logger"] == "domain"]
    assert sorted(line["message"] for line in seen) == sorted(names)
    assert all(line["message"] == line["volume"] for line in seen)


async def test_a_planted_secret_is_never_seen(bench: Bench) -> None:
    """In the request, in a path within an error, in a traceback, in a line of the domain's, in the answer."""
    logging.getLogger().setLevel(logging.DEBUG)

    async def leak(request: Any) -> None:
        secret = request.secrets["encryption-passphrase"]
        logs.get_logger("domain").warning("using %s", secret, extra={"argument": secret, "whole": str(request)})
        try:
            raise FileNotFoundError(2, "No such file or directory", f"/run/keys/{secret}/key")
        except FileNotFoundError as cause:
            raise errors.Corrupt(f"cannot open /run/keys/{secret}/key") from cause

    bench.servicer.work = leak
    code, details = await refused(bench.node.NodeStageVolume(STAGE, timeout=5))
    assert code is StatusCode.DATA_LOSS
    assert PLANTED not in details
    bench.calls_will_raise(RuntimeError(f"argv was {['cryptsetup', PLANTED]}"))
    await refused(bench.node.NodeStageVolume(STAGE, timeout=5))
    assert len([line for line in bench.lines() if "exception" in line]) == 2
    assert "***stripped***" in bench.text
    assert PLANTED not in bench.text
    assert json.dumps(PLANTED)[1:-1] not in bench.text


@pytest.mark.parametrize(("letter", "kept"), [("x", 6000), ("ü", 1000), ("€", 666), ("%", 2000), ("\n", 2000)])
async def test_endless_texts_are_cut_for_the_caller_and_whole_in_the_log(bench: Bench, letter: str, kept: int) -> None:
    bench.calls_will_raise(errors.InvalidRequest(letter * 20_000))
    code, details = await refused(bench.controller.CreateVolume(CREATE, timeout=5))
    assert code is StatusCode.INVALID_ARGUMENT
    assert details.count(letter) == kept
    assert details.endswith(" (shortened; the log has it whole)")
    assert bench.line()["message"].count(letter) == 20_000


async def test_a_stream_ends_with_one_line(bench: Bench, registry: CollectorRegistry) -> None:
    request = csi_pb2.GetMetadataAllocatedRequest(snapshot_id="s-1")
    replies = [reply.volume_capacity_bytes async for reply in bench.metadata.GetMetadataAllocated(request, timeout=5)]
    assert replies == [1, 2]
    assert (bench.line()["snapshot"], bench.line()["code"]) == ("s-1", "OK")
    assert count(registry, "GetMetadataAllocated", "OK") == 1


async def test_a_stream_that_fails_in_its_middle(bench: Bench) -> None:
    bench.calls_will_raise(errors.NotFound("the snapshot went away"))
    seen = []

    async def read() -> None:
        stream = bench.metadata.GetMetadataAllocated(csi_pb2.GetMetadataAllocatedRequest(snapshot_id="s-1"), timeout=5)
        async for reply in stream:
            seen.append(reply.volume_capacity_bytes)  # noqa: PERF401 - what came before the error counts

    assert await refused(read()) == (StatusCode.NOT_FOUND, "the snapshot went away")
    assert seen == [1]
    assert bench.line()["code"] == "NotFound"


async def test_a_stream_that_is_left_out_is_unimplemented(bench: Bench) -> None:
    async def read() -> None:
        async for _ in bench.metadata.GetMetadataDelta(csi_pb2.GetMetadataDeltaRequest(), timeout=5):
            pass

    code, _ = await refused(read())
    assert code is StatusCode.UNIMPLEMENTED
    assert bench.line()["code"] == "Unimplemented"


async def test_a_method_of_no_registered_service_is_left_to_grpc(bench: Bench) -> None:
    async with grpc.aio.insecure_channel(bench.server.address) as channel:
        group: Any = csi_pb2_grpc.GroupControllerStub(channel)
        request = csi_pb2.GroupControllerGetCapabilitiesRequest()
        code, _ = await refused(group.GroupControllerGetCapabilities(request, timeout=5))
    assert code is StatusCode.UNIMPLEMENTED


async def test_a_path_that_is_no_utf8_is_told_and_not_lost(bench: Bench) -> None:
    bench.calls_will_raise(errors.FailedPrecondition("still published at /pods/\udcff"))
    told = await refused(bench.controller.CreateVolume(CREATE))
    assert told == (StatusCode.FAILED_PRECONDITION, "still published at /pods/\\udcff")
    bench.text.encode()
    assert bench.line()["message"].startswith("still published at /pods/")
