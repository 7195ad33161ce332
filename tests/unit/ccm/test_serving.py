import asyncio
import ssl
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from appkit.health import Health, serve_http
from ccm.app import pages
from ccm.serving import server_tls
from ccm.settings import CcmSettings


async def test_a_probe_without_a_certificate_of_ours_gets_its_answer() -> None:
    server = await serve_http("127.0.0.1:0", Health(), CollectorRegistry(), tls=server_tls(None, None))
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    host, _, port = server.address.rpartition(":")
    try:
        for path in ("/healthz", "/livez", "/readyz"):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=client)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
            writer.close()
            await writer.wait_closed()
    finally:
        await server.aclose()


def test_files_that_are_no_certificate_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        server_tls(tmp_path / "none.pem", tmp_path / "none.key")


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, []),
        ({"metrics_address": ":8080"}, [":8080"]),
        ({"metrics_address": ":8080", "secure_port": 10258}, [":8080", ":10258"]),
        ({"secure_port": 10258, "bind_address": "::1"}, ["[::1]:10258"]),
        ({"secure_port": 10258, "bind_address": "127.0.0.1"}, ["127.0.0.1:10258"]),
    ],
)
def test_which_pages_are_served(settings: dict[str, object], addresses: list[str]) -> None:
    assert [address for address, _ in pages(CcmSettings.model_validate({"cloud_config": "x", **settings}))] == addresses
