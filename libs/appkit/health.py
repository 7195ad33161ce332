"""Whether this process may be given work, and its page: /healthz (also as /livez), /readyz and /metrics.

Must not run checks: whoever knows sets the state, a probe only reads it and therefore never waits. Liveness says no
more than that the event loop turns; a broken Proxmox is no reason to be killed.
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from appkit.errors import InvalidRequest
from appkit.logs import get_logger, mask

_log = get_logger(__name__)

_HEAD_LIMIT_BYTES = 16 * 1024
_REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Check:
    """The last known state of one named thing that readiness depends on."""

    ok: bool
    reason: str


class Health:
    """Named checks; ready when all of them are good and the process is not draining.

    Names given to the constructor must each be set good once before the first "ready".
    """

    def __init__(self, *expected: str) -> None:
        self._checks = {name: Check(ok=False, reason="not checked yet") for name in expected}
        self._draining = False

    def set(self, name: str, ok: bool, reason: str = "") -> None:
        """Note the state of `name`; a change is logged once, when it happens."""
        before = self._checks.get(name)
        self._checks[name] = Check(ok, reason)
        if before is None or before.ok != ok:
            _log.info("check changed", extra={"check": name, "ok": ok, "reason": reason})

    def drain(self) -> None:
        """Be unready from now on: the first step of stopping, before anything is closed."""
        self._draining = True

    def checks(self) -> dict[str, Check]:
        """Every check by name."""
        return dict(self._checks)

    def ready(self) -> tuple[bool, list[str]]:
        """Whether work may be sent here, and if not, each reason as `name: reason`."""
        reasons = [
            f"{name}: {check.reason or 'failed'}" for name, check in sorted(self._checks.items()) if not check.ok
        ]
        if self._draining:
            reasons.insert(0, "shutting down")
        return not reasons, reasons


class HttpServer:
    """A listening page; `address` is what it really listens on (`host:port`)."""

    def __init__(self, server: asyncio.Server, address: str) -> None:
        self._server = server
        self.address = address

    async def aclose(self) -> None:
        """Stop listening; a client that lingers is not waited for longer than a second."""
        self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._server.wait_closed()


def parse_address(address: str) -> tuple[str | None, int]:
    """`host:port`, `:port` (all interfaces) or `[v6]:port` → host (None for all) and port; raises InvalidRequest."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise InvalidRequest(f'address must be "host:port", ":port" or "[IPv6]:port", not {address!r}')
    return host.strip("[]") or None, int(port)


async def serve_http(
    address: str, health: Health, registry: CollectorRegistry, *, tls: ssl.SSLContext | None = None
) -> HttpServer:
    """Listen on `address` (port 0 picks a free one) and answer GET and HEAD, one per connection; https with `tls`.

    Raises InvalidRequest for an address that cannot be read and OSError when it cannot be listened on.
    """
    host, port = parse_address(address)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                writer.write(_answer(head, health, registry))
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, host, port, limit=_HEAD_LIMIT_BYTES, ssl=tls)
    bound_host, bound_port = server.sockets[0].getsockname()[:2]
    return HttpServer(server, f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}")


def _answer(head: str, health: Health, registry: CollectorRegistry) -> bytes:
    request_line, *header_lines = head.split("\r\n")
    method, _, rest = request_line.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in header_lines)}
    status, content_type, body = HTTPStatus.OK, "text/plain; charset=utf-8", b""
    match path:
        case "/healthz" | "/livez":
            body = b"ok\n"
        case "/readyz":
            ready, reasons = health.ready()
            status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            body = mask("ok\n" if ready else "".join(f"{each}\n" for each in reasons)).encode()
        case "/metrics":
            encode, content_type = choose_encoder(headers.get("accept", ""))
            body = encode(registry)
        case _:
            status, body = HTTPStatus.NOT_FOUND, b"try /healthz, /readyz or /metrics\n"
    if method not in ("GET", "HEAD"):
        status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n"
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body)
