import asyncio
from collections.abc import AsyncIterator

import pytest

from appkit.errors import InvalidRequest
from appkit.health import Health, HttpServer, parse_address, serve_http
from appkit.logs import register_secret
from appkit.metrics import service_registry


@pytest.fixture
def health() -> Health:
    return Health("kubernetes", "proxmox")


@pytest.fixture
async def server(health: Health) -> AsyncIterator[HttpServer]:
    server = await serve_http("127.0.0.1:0", health, service_registry("test"))
    yield server
    await server.aclose()


async def ask(server: HttpServer, head: str) -> tuple[int, str]:
    host, port = parse_address(server.address)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"{head}\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


def test_ready_needs_every_expected_check(health: Health) -> None:
    health.set("proxmox", ok=True)
    assert health.ready() == (False, ["kubernetes: not checked yet"])
    health.set("kubernetes", ok=True)
    assert health.ready() == (True, [])
    health.set("proxmox", ok=False, reason="cluster-1: no quorum")
    assert health.ready() == (False, ["proxmox: cluster-1: no quorum"])


def test_draining_is_unready_for_good(health: Health) -> None:
    health.set("proxmox", ok=True)
    health.set("kubernetes", ok=True)
    health.drain()
    assert health.ready() == (False, ["shutting down"])


async def test_the_three_paths(server: HttpServer, health: Health) -> None:
    assert await ask(server, "GET /healthz HTTP/1.1") == (200, "ok\n")
    assert await ask(server, "GET /readyz?verbose HTTP/1.1") == (
        503,
        "kubernetes: not checked yet\nproxmox: not checked yet\n",
    )
    health.set("proxmox", ok=True)
    health.set("kubernetes", ok=True)
    assert await ask(server, "GET /readyz HTTP/1.1") == (200, "ok\n")
    status, body = await ask(server, "GET /metrics HTTP/1.1")
    assert (status, "pvecloud_build_info" in body) == (200, True)


async def test_what_is_not_served(server: HttpServer) -> None:
    assert (await ask(server, "GET /debug HTTP/1.1"))[0] == 404
    assert (await ask(server, "POST /healthz HTTP/1.1"))[0] == 405
    assert await ask(server, "HEAD /healthz HTTP/1.1") == (200, "")


async def test_a_reason_with_a_secret_in_it_is_masked(server: HttpServer, health: Health) -> None:
    register_secret("planted-in-a-reason")
    health.set("proxmox", ok=False, reason="planted-in-a-reason")
    assert "planted" not in (await ask(server, "GET /readyz HTTP/1.1"))[1]


async def test_rubbish_and_early_ends_do_no_harm(server: HttpServer) -> None:
    host, port = parse_address(server.address)
    for data in (b"", b"\0\xff" * 20_000, b"GET", b"\r\n\r\n"):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(data)
        if writer.can_write_eof():
            writer.write_eof()
        await asyncio.wait_for(asyncio.gather(reader.read(), return_exceptions=True), 1)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    assert (await ask(server, "GET /healthz HTTP/1.1"))[0] == 200


@pytest.mark.parametrize(
    ("text", "parsed"),
    [(":8080", (None, 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9", ("::1", 9)), ("h:65535", ("h", 65535))],
)
def test_addresses(text: str, parsed: tuple[str | None, int]) -> None:
    assert parse_address(text) == parsed


@pytest.mark.parametrize("text", ["", "8080", "host", "host:", ":x", "::1:80", ":65536"])
def test_bad_addresses_say_what_is_wanted(text: str) -> None:
    with pytest.raises(InvalidRequest, match="host:port"):
        parse_address(text)
