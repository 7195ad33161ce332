"""A gRPC server on a unix socket (or tcp) that starts beside a dead predecessor and stops without dropping calls.

Must not know which services it carries. The socket file of a predecessor is removed only when it is a socket and
nobody answers on it: two plugins on one socket would take turns in answering.
"""

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from appkit.errors import FailedPrecondition, InvalidRequest, Unavailable

Registrar = Callable[[grpc.aio.Server], None]

DRAIN_S = 20.0
# sockaddr_un holds 108 bytes, the last of which is zero (unix(7)).
_MAX_PATH_BYTES = 107
_PROBE_S = 1.0
# Without SO_REUSEPORT a second server on the same tcp port fails instead of taking half of the calls.
_OPTIONS = (("grpc.so_reuseport", 0),)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen: a socket file, or else host and port."""

    socket: Path | None
    host_port: str = ""

    @property
    def target(self) -> str:
        """The address as gRPC takes it, for listening and for dialling."""
        return f"unix:{self.socket}" if self.socket else self.host_port


def parse_endpoint(text: str) -> Endpoint:
    """Read `unix:///path`, `unix:path`, `/path` or `tcp://host:port`. Raises InvalidRequest with what is wrong."""
    scheme, colon, rest = text.partition(":")
    if scheme == "tcp" and colon:
        host, _, port = rest.removeprefix("//").rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise InvalidRequest(f"endpoint {text!r}: tcp://<host>:<port> is expected")
        return Endpoint(None, f"{host}:{port}")
    if scheme == "unix" and colon:
        path = rest.removeprefix("//")
    elif text.startswith("/"):
        path = text
    else:
        raise InvalidRequest(f"endpoint {text!r}: unix:///<path>, /<path> or tcp://<host>:<port> is expected")
    if not path or path.endswith("/"):
        raise InvalidRequest(f"endpoint {text!r}: it names no socket file")
    if (length := len(os.fsencode(path))) > _MAX_PATH_BYTES:
        raise InvalidRequest(
            f"endpoint {text!r}: the path has {length} bytes, but Linux allows {_MAX_PATH_BYTES} for a unix socket;"
            " use a shorter directory"
        )
    return Endpoint(Path(path))


class CsiServer:
    """A running server. `address` is what a client dials; for tcp it has the port really taken."""

    def __init__(self, server: grpc.aio.Server, address: str, drain_s: float) -> None:
        self._server = server
        self._drain_s = drain_s
        self.address = address

    async def stop(self, drain_s: float | None = None) -> None:
        """Refuse new calls at once, let running ones finish for `drain_s` seconds, then cancel what is left.

        The socket file vanishes at the beginning, by gRPC, so a successor may take its place during the drain.
        """
        await self._server.stop(self._drain_s if drain_s is None else drain_s)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()


async def serve(
    endpoint: str,
    servicers: Registrar,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    drain_s: float = DRAIN_S,
) -> CsiServer:
    """Listen on `endpoint` with what `servicers` registers.

    Raises InvalidRequest for an endpoint that cannot be, FailedPrecondition when something else has its place, and
    Unavailable when the system refuses to listen.
    """
    place = parse_endpoint(endpoint)
    server = grpc.aio.server(interceptors=list(interceptors), options=_OPTIONS)
    servicers(server)
    with contextlib.ExitStack() as held:
        if place.socket:
            held.enter_context(_alone_at(place.socket))
            _make_room(place.socket)
        try:
            port = server.add_insecure_port(place.target)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {endpoint!r}: {error}") from error
    await server.start()
    address = place.target if place.socket else f"{place.host_port.rpartition(':')[0]}:{port}"
    return CsiServer(server, address, drain_s)


@contextlib.contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Of several processes that start at once, one at a time looks at the socket, removes it and listens.

    Else each could find the same dead socket, and the slower one remove what the faster one has just put there.
    """
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FailedPrecondition(f"cannot listen on {path}: its directory {path.parent} does not exist") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_room(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FailedPrecondition(f"cannot listen on {path}: it exists and is not a socket; remove it by hand")
    with socket.socket(socket.AF_UNIX) as probe:
        # A listener whose queue is full does not answer at once, but it is alive.
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except (TimeoutError, BlockingIOError):
            pass
    raise FailedPrecondition(f"cannot listen on {path}: another process answers there")
