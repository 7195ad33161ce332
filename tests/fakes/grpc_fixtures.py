"""pytest-grpc's fixtures, pointed at the real asyncio server.

The plugin's own fixtures start a synchronous server on a tcp port. Services of this project are asyncio servicers on a
unix socket, and the plugin's stubs are synchronous: they would block the loop that has to answer them. So the server
runs here in a thread of its own with a loop of its own, made by csikit.server.serve as in production.

A test module imports what it uses, by name, and defines as for the plugin: `grpc_add_to_server`, `grpc_servicer` (built
without a running loop), `grpc_stub_cls`; optionally `grpc_interceptors` (a list for grpc.aio). All have module scope.
"""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from csikit.server import CsiServer, serve

START_S = 10.0
STOP_S = 10.0

AddToServer = Callable[[Any, grpc.aio.Server], None]


class ServerThread:
    """One asyncio server in a thread of its own. Leaving the context stops it and re-raises what ended it."""

    def __init__(
        self, endpoint: str, add_to_server: AddToServer, servicer: Any, interceptors: Sequence[Any] = ()
    ) -> None:
        self._endpoint = endpoint
        self._add_to_server = add_to_server
        self._servicer = servicer
        self._interceptors = tuple(interceptors)
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, CsiServer]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"grpc {endpoint}", daemon=True)

    @property
    def address(self) -> str:
        """What a client dials."""
        return self._started.result(START_S)[2].address

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        loop, stop, _server = self._started.result(START_S)
        loop.call_soon_threadsafe(stop.set)
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), f"the server on {self._endpoint} did not stop within {STOP_S} s"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        stop = asyncio.Event()
        server = await serve(
            self._endpoint,
            lambda target: self._add_to_server(self._servicer, target),
            interceptors=self._interceptors,
        )
        self._started.set_result((asyncio.get_running_loop(), stop, server))
        await stop.wait()
        await server.stop(drain_s=0)


@pytest.fixture(scope="module")
def grpc_addr() -> Iterator[str]:
    """A socket path of its own, short enough for a unix socket whatever pytest's temporary folder is called."""
    folder = tempfile.mkdtemp(prefix="grpc-")
    yield f"unix:{Path(folder) / 'csi.sock'}"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def grpc_server(
    grpc_addr: str, grpc_add_to_server: AddToServer, grpc_servicer: Any, grpc_interceptors: Sequence[Any] | None
) -> Iterator[ServerThread]:
    """The running server with the module's servicer."""
    with ServerThread(grpc_addr, grpc_add_to_server, grpc_servicer, grpc_interceptors or ()) as server:
        yield server


@pytest.fixture(scope="module")
def grpc_create_channel(grpc_server: ServerThread) -> Callable[[], grpc.Channel]:
    """A factory of synchronous channels to the server."""

    def create_channel() -> grpc.Channel:
        return grpc.insecure_channel(grpc_server.address)

    return create_channel


@pytest.fixture(scope="module")
def grpc_channel(grpc_create_channel: Callable[[], grpc.Channel]) -> Iterator[grpc.Channel]:
    """One synchronous channel for the module."""
    with grpc_create_channel() as channel:
        yield channel


@pytest.fixture(scope="module")
def grpc_stub(grpc_stub_cls: Callable[[grpc.Channel], Any], grpc_channel: grpc.Channel) -> Any:
    """The module's stub class on that channel."""
    return grpc_stub_cls(grpc_channel)
