"""The door: tokens, fail-over, time-outs, the cap, what is sent and what never is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.errors import Unavailable
from appkit.metrics import Metrics
from pvekit.client import PveClient
from pvekit.errors import PveDenied, PveUnknownOutcome, PveUnreachable, ServerFailure
from pvekit.metrics import PveMetrics
from pvekit.purpose import purpose
from tests.unit.pvekit.conftest import client_on, settings_with
from tests.unit.pvekit.fake_pve import answer_of

Answer = Callable[[httpx.Request], httpx.Response | Exception]


class Hosts(httpx.AsyncBaseTransport):
    """What each host answers; remembers every request."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer


def always(answer: httpx.Response | Exception) -> Answer:
    return lambda _: answer


def ok(data: object = None) -> httpx.Response:
    return httpx.Response(200, json={"data": data})


async def test_what_a_request_looks_like() -> None:
    hosts = Hosts(lambda _: ok("x"))
    client = client_on(hosts)
    assert await client.get("/cluster/nextid", {"vmid": 100}) == "x"
    assert (
        await client.post("/nodes/pve1/qemu/100/config", {"onboot": True, "scsi1": "local:9999/x.raw,wwn=0x5"}) == "x"
    )
    assert await client.delete("/nodes/pve1/storage/local/content/local%3A9999%2Fx.raw", {"delay": 5}) == "x"
    get, post, delete = hosts.requests
    assert str(get.url) == "https://pve:8006/api2/json/cluster/nextid?vmid=100"
    assert get.headers["Authorization"] == "PVEAPIToken=csi@pve!csi=s3cr3t-value"
    assert get.headers["User-Agent"] == "pvecloud"
    assert post.content == b"onboot=1&scsi1=local%3A9999%2Fx.raw%2Cwwn%3D0x5"
    assert delete.url.raw_path == b"/api2/json/nodes/pve1/storage/local/content/local%3A9999%2Fx.raw?delay=5"
    assert delete.content == b""


async def test_the_purpose_is_told_at_the_end_of_user_agent() -> None:
    hosts = Hosts(lambda _: ok())
    client = client_on(hosts)
    with purpose("background"):
        await client.get("/version")
        with purpose("poll"):
            await client.get("/version")
    assert [request.headers["User-Agent"] for request in hosts.requests] == ["pvecloud (background)", "pvecloud (poll)"]


async def test_a_malformed_path_is_never_sent() -> None:
    hosts = Hosts(lambda _: ok())
    with pytest.raises(ValueError, match="not an API path"):
        await client_on(hosts).get("/nodes//qemu/100/config")
    assert not hosts.requests


TWO = ["https://a:8006", "https://b:8006"]


async def test_the_next_address_is_asked_when_one_does_not_connect_and_then_kept() -> None:
    hosts = Hosts(lambda request: httpx.ConnectError("refused") if request.url.host == "a" else ok())
    client = client_on(hosts, url=TWO)
    await client.post("/nodes/pve1/qemu/100/config", {"x": "1"})
    await client.get("/version")
    assert [request.url.host for request in hosts.requests] == ["a", "b", "b"]


async def test_no_address_connects() -> None:
    hosts = Hosts(lambda _: httpx.ConnectTimeout(""))
    with pytest.raises(PveUnreachable, match="https://a:8006/api2/json: ConnectTimeout; https://b"):
        await client_on(hosts, url=TWO).get("/version")


async def test_a_write_that_may_have_been_sent_is_never_repeated() -> None:
    hosts = Hosts(lambda _: httpx.ReadError("reset"))
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(PveUnknownOutcome, match="reset"):
            await client_on(hosts, url=TWO).request(method, "/nodes/pve1/qemu/100/config")
    assert len(hosts.requests) == 3


async def test_a_read_that_was_cut_is_asked_of_the_next_address() -> None:
    hosts = Hosts(lambda request: httpx.RemoteProtocolError("cut") if request.url.host == "a" else ok(1))
    assert await client_on(hosts, url=TWO).get("/version") == 1


@pytest.mark.looptime
async def test_no_answer_within_the_time_is_an_unknown_outcome() -> None:
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(3600)
            raise AssertionError

    client = client_on(Silent(), url=TWO)
    began = asyncio.get_running_loop().time()
    with pytest.raises(PveUnknownOutcome, match="did not answer within 35 s"):
        await client.post("/nodes/pve1/qemu/100/config")
    assert asyncio.get_running_loop().time() - began == pytest.approx(35)
    with pytest.raises(PveUnknownOutcome, match="within 2 s"):
        await client.get("/version", timeout_s=2)


@pytest.mark.looptime
async def test_no_more_than_max_requests_are_in_flight() -> None:
    class Counting(httpx.AsyncBaseTransport):
        now = most = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(1)
            self.now -= 1
            return ok()

    counting = Counting()
    client = client_on(counting, max_requests=3)
    await asyncio.gather(*(client.get("/version") for _ in range(10)))
    assert counting.most == 3


async def test_a_rotated_token_file_is_read_again_on_change(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first-secret\n")
    hosts = Hosts(lambda _: ok())
    client = client_on(hosts, token_secret=None, token_secret_file=secret)
    await client.get("/version")
    secret.write_text("second-secret-longer\n")
    await client.get("/version")
    assert [request.headers["Authorization"].rpartition("=")[2] for request in hosts.requests] == [
        "first-secret",
        "second-secret-longer",
    ]


async def test_on_401_the_files_are_read_once_more_and_the_request_repeated(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old-secret")

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["Authorization"].endswith("new-secret"):
            return ok("in")
        secret.write_text("new-secret")
        return answer_of(401, "Authentication failed!")

    hosts = Hosts(answer)
    client = client_on(hosts, token_secret=None, token_secret_file=secret)
    assert await client.post("/nodes/pve1/qemu/100/config") == "in"
    assert len(hosts.requests) == 2


async def test_a_token_that_stays_refused_is_asked_once() -> None:
    hosts = Hosts(lambda _: answer_of(401, "Authentication failed!"))
    with pytest.raises(PveDenied, match="refused the API token"):
        await client_on(hosts).get("/version")
    assert len(hosts.requests) == 1


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_a_token_file_that_cannot_be_used(tmp_path: Path, content: str | None) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    with pytest.raises(Unavailable, match=r"token file .*secret (cannot be read|is empty)"):
        await client_on(Hosts(lambda _: ok()), token_secret=None, token_secret_file=secret).get("/version")


async def test_an_answer_of_something_else(caplog: pytest.LogCaptureFixture) -> None:
    hosts = Hosts(lambda _: httpx.Response(200, text="<html>login</html>"))
    with pytest.raises(ServerFailure, match="api2/json"):
        await client_on(hosts).get("/version")


async def test_no_error_and_no_log_line_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[httpx.Response | Exception] = [answer_of(401, "No"), answer_of(500, "bad"), httpx.ReadError("cut")]
    for answer in answers:
        with pytest.raises(Exception) as caught:
            await client_on(Hosts(always(answer))).post("/x", {"cipassword": "s3cr3t-parameter"})
        assert "s3cr3t" not in f"{caught.value} {caught.value!r} {caught.value.__dict__}"
    assert "s3cr3t" not in caplog.text


async def test_requests_are_counted_by_route_purpose_and_status() -> None:
    registry = CollectorRegistry()
    hosts = Hosts(lambda request: ok() if request.url.path.endswith("version") else answer_of(595, "No route to host"))
    client = PveClient(settings_with(), transport=hosts, clock=SystemClock(), metrics=PveMetrics(Metrics(registry)))
    await client.get("/version")
    with pytest.raises(PveUnreachable), purpose("background"):
        await client.get("/nodes/pve1/qemu/100/pending")

    def count(route: str, kind: str, status: str) -> float | None:
        labels = {"region": "r1", "method": "GET", "route": route, "purpose": kind, "status": status}
        return registry.get_sample_value("pvecloud_proxmox_requests_total", labels)

    assert count("/version", "foreground", "200") == 1
    assert count("/nodes/{node}/qemu/{vmid}/pending", "background", "595") == 1


async def test_operations_keep_the_peers_names() -> None:
    registry = CollectorRegistry()
    metrics = PveMetrics(Metrics(registry))
    with metrics.operation("attachVolume"):
        pass
    with pytest.raises(RuntimeError), metrics.operation("attachVolume"):
        raise RuntimeError
    labels = {"request": "attachVolume"}
    assert registry.get_sample_value("proxmox_api_request_duration_seconds_count", labels) == 2
    assert registry.get_sample_value("proxmox_api_request_errors_total", labels) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ReadTimeout("slow"),
        answer_of(595, "No route to host"),
        answer_of(500, "cfs-lock 'storage-shared' error: no quorum!"),
    ],
    ids=["silent", "cut-off", "no-quorum"],
)
async def test_a_host_that_is_ill_is_not_asked_first_again(trouble: httpx.Response | Exception) -> None:
    hosts = Hosts(lambda request: trouble if request.url.host == "a" else ok("well"))
    client = client_on(hosts, url=TWO)
    with pytest.raises(Unavailable):
        await client.post("/version")
    assert await client.get("/version") == "well"
    assert await client.get("/version") == "well"
    assert [request.url.host for request in hosts.requests] == ["a", "b", "b"]


async def test_an_answer_that_cannot_be_unpacked_is_no_answer() -> None:
    class Packed(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=Plain(), headers={"Content-Encoding": "gzip"})

    class Plain(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"never packed"

    for method in ("GET", "POST"):
        with pytest.raises(PveUnknownOutcome, match="connection broke"):
            await client_on(Packed()).request(method, "/version")


@pytest.mark.parametrize("content", ["two words", "line\nbreak", "schl\u00fcssel", "tab\tbed"])
async def test_a_file_that_holds_no_token_is_named_and_not_quoted(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secret"
    file.write_text(content, encoding="utf-8")
    hosts = Hosts(always(ok()))
    with pytest.raises(PveUnreachable, match="printable ASCII") as caught:
        await client_on(hosts, token_secret=None, token_secret_file=file).get("/version")
    assert str(file) in str(caught.value)
    assert content not in str(caught.value)
    assert hosts.requests == []
