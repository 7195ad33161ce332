"""The server on real sockets: forms of an endpoint, what may be in its place, drain, successor."""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from appkit.errors import FailedPrecondition, InvalidRequest, Unavailable
from csikit.pb import csi_pb2, csi_pb2_grpc
from csikit.server import CsiServer, Endpoint, parse_endpoint, serve

PROBE = csi_pb2.ProbeRequest()


class Gate(csi_pb2_grpc.IdentityServicer):
    """Probe says that it was entered and answers when the gate is opened."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = False

    async def Probe(self, request: Any, context: Any) -> csi_pb2.ProbeResponse:  # noqa: N802
        self.entered.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return csi_pb2.ProbeResponse()

    async def GetPluginInfo(self, request: Any, context: Any) -> csi_pb2.GetPluginInfoResponse:  # noqa: N802
        return csi_pb2.GetPluginInfoResponse(name=self.name)


async def start(endpoint: str, gate: Gate, drain_s: float = 5) -> CsiServer:
    return await serve(endpoint, lambda s: csi_pb2_grpc.add_IdentityServicer_to_server(gate, s), drain_s=drain_s)


async def name_at(address: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = csi_pb2_grpc.IdentityStub(channel)
        return (await stub.GetPluginInfo(csi_pb2.GetPluginInfoRequest(), timeout=5)).name


def is_there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "csi.sock"


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("unix:///csi/csi.sock", Endpoint(Path("/csi/csi.sock"))),
        ("unix:/csi/csi.sock", Endpoint(Path("/csi/csi.sock"))),
        ("unix:csi.sock", Endpoint(Path("csi.sock"))),
        ("unix://csi/csi.sock", Endpoint(Path("csi/csi.sock"))),
        ("/csi/csi.sock", Endpoint(Path("/csi/csi.sock"))),
        ("/odd:name/csi.sock", Endpoint(Path("/odd:name/csi.sock"))),
        ("tcp://127.0.0.1:10000", Endpoint(None, "127.0.0.1:10000")),
        ("tcp://[::1]:0", Endpoint(None, "[::1]:0")),
        ("/" + "d" * 106, Endpoint(Path("/" + "d" * 106))),
    ],
)
def test_endpoint_forms(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is expected"),
        ("csi.sock", "is expected"),
        ("http://x:1", "is expected"),
        ("unix://", "names no socket file"),
        ("unix:///csi/", "names no socket file"),
        ("tcp://:80", "tcp://<host>:<port>"),
        ("tcp://host", "tcp://<host>:<port>"),
        ("tcp://host:http", "tcp://<host>:<port>"),
        ("tcp://host:65536", "tcp://<host>:<port>"),
        ("/" + "d" * 107, "108 bytes, but Linux allows 107"),
        ("unix:///" + "ü" * 60, "121 bytes"),
    ],
)
def test_impossible_endpoints_say_why(text: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        parse_endpoint(text)


async def test_serves_on_a_unix_socket(path: Path) -> None:
    server = await start(f"unix://{path}", Gate("here"))
    assert await name_at(server.address) == "here"
    await server.stop()
    assert not is_there(path)


async def test_serves_on_tcp_and_tells_the_port() -> None:
    server = await start("tcp://127.0.0.1:0", Gate("tcp"))
    assert await name_at(server.address) == "tcp"
    with pytest.raises(Unavailable, match="cannot listen on 'tcp://127"):
        await start(f"tcp://{server.address}", Gate())
    await server.stop()


async def test_the_longest_path_works(path: Path) -> None:
    long = path.parent / ("s" * (107 - len(os.fsencode(path.parent)) - 1))
    server = await start(str(long), Gate("long"))
    assert await name_at(server.address) == "long"
    await server.stop()


async def test_a_dead_socket_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = await start(str(path), Gate("second"))
    assert await name_at(server.address) == "second"
    await server.stop()


async def test_a_living_socket_is_respected(path: Path) -> None:
    first = await start(str(path), Gate("first"))
    with pytest.raises(FailedPrecondition, match="another process answers there"):
        await start(str(path), Gate("second"))
    assert await name_at(first.address) == "first"
    await first.stop()


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(FailedPrecondition, match="is not a socket"):
        asyncio.run(start(str(path), Gate()))
    assert path.read_text() == "precious"


async def test_a_missing_directory_is_named(path: Path) -> None:
    with pytest.raises(FailedPrecondition, match=f"directory {path} does not exist"):
        await start(str(path / "csi.sock"), Gate())


async def test_drain_finishes_the_running_call_and_refuses_new_ones(path: Path) -> None:
    gate = Gate()
    server = await start(str(path), gate)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = csi_pb2_grpc.IdentityStub(channel)
        running = asyncio.ensure_future(stub.Probe(PROBE))
        await gate.entered.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await name_at(server.address)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        gate.open.set()
        assert await running == csi_pb2.ProbeResponse()
        await asyncio.wait_for(stopping, 2)
    await asyncio.wait_for(server.wait(), 2)
    assert not gate.cancelled


async def test_drain_ends_with_its_deadline(path: Path) -> None:
    gate = Gate()
    server = await start(str(path), gate)
    async with grpc.aio.insecure_channel(server.address) as channel:
        running = asyncio.ensure_future(csi_pb2_grpc.IdentityStub(channel).Probe(PROBE))
        await gate.entered.wait()
        await server.stop(drain_s=0.05)
        with pytest.raises(grpc.aio.AioRpcError):
            await running
    assert gate.cancelled


async def test_a_successor_may_start_during_the_drain_and_keeps_its_socket(path: Path) -> None:
    gate = Gate("old")
    old = await start(str(path), gate)
    async with grpc.aio.insecure_channel(old.address) as channel:
        running = asyncio.ensure_future(csi_pb2_grpc.IdentityStub(channel).Probe(PROBE))
        await gate.entered.wait()
        stopping = asyncio.create_task(old.stop())
        await asyncio.sleep(0.05)
        assert not is_there(path)
        new = await start(str(path), Gate("new"))
        gate.open.set()
        await running
        await stopping
    assert await name_at(new.address) == "new"
    await new.stop()


async def test_a_living_socket_whose_queue_is_full_is_respected(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as alive, contextlib.ExitStack() as callers:
        alive.bind(str(path))
        alive.listen(0)
        for _ in range(5):
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                caller.connect(str(path))
        with pytest.raises(FailedPrecondition, match="another process answers"):
            await start(f"unix://{path}", Gate())
    assert is_there(path)


STARTER = """
import asyncio, sys
from appkit.errors import FailedPrecondition
from csikit.server import serve

async def main():
    sys.stdin.readline()
    try:
        server = await serve(sys.argv[1], lambda server: None)
    except FailedPrecondition:
        print("refused", flush=True)
        return
    print("serves", flush=True)
    sys.stdin.readline()
    await server.stop(0)

print("ready", flush=True)
asyncio.run(main())
"""


async def test_of_several_processes_that_start_at_once_one_serves(path: Path) -> None:
    """All find the same dead socket; none may remove the one that another has just put there."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", STARTER, str(path), stdin=pipe, stdout=pipe)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    said = [await process.stdout.readline() for process in processes if process.stdout is not None]
    for process in processes:
        await process.communicate(b"end\n")
    assert sorted(said) == [b"refused\n", b"refused\n", b"serves\n"]
