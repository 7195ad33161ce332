"""The simulator over real HTTPS and as a process: certificates, reason phrases, cuts, control door, clean-up."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pvesim.faults import Rule, cut_after, cut_before
from tests.pvesim.server import SimServer
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, three_hosts

ROOT_DIR = Path(__file__).parents[3]
CONTENT = "/api2/json/nodes/pve1/storage/local/content"
NEW = {"vmid": "9999", "filename": "vm-9999-a.raw", "size": "1M"}
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="loop devices need root"
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SimServer]:
    server = SimServer(three_hosts(), tmp_path)
    await server.start()
    yield server
    await server.aclose()


def _client(url: str, ca_file: Path) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        verify=ssl.create_default_context(cafile=str(ca_file)),
        headers={"Authorization": f"PVEAPIToken={CSI_TOKEN}={CSI_SECRET}"},
    )


@pytest.fixture
async def client(server: SimServer) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(server.urls[0], server.ca_file) as client:
        yield client


async def test_answers_look_like_the_real_servers(client: httpx.AsyncClient) -> None:
    good = await client.get("/api2/json/version")
    assert (good.status_code, good.headers["connection"], good.headers["server"]) == (
        200,
        "Keep-Alive",
        "pve-api-daemon/3.0",
    )
    bad = await client.get("/api2/json/nodes/pve1/qemu/999/config")
    assert bad.reason_phrase == "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
    assert bad.headers["connection"] == "close"
    unknown = await client.get("/api2/json/nosuch")
    assert (unknown.status_code, unknown.reason_phrase) == (501, "Method 'GET /nosuch' not implemented")
    body = await client.request("DELETE", CONTENT, content=b"delay=5")
    assert (body.status_code, body.text) == (501, "Unexpected content for method 'DELETE'")


async def test_nobody_is_trusted_without_the_simulators_ca(server: SimServer) -> None:
    async with httpx.AsyncClient(base_url=server.urls[0]) as stranger:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await stranger.get("/api2/json/version")


async def test_escaped_and_bare_volume_ids_are_the_same(client: httpx.AsyncClient) -> None:
    volid = (await client.post(CONTENT, data=NEW)).json()["data"]
    for spelled in (volid, "local%3A9999%2Fvm-9999-a.raw", "9999%2Fvm-9999-a.raw"):
        assert (await client.get(f"{CONTENT}/{spelled}")).status_code == 200


async def test_a_long_answer_is_compressed_when_asked_for(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api2/json/cluster/resources")
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["data"]) > 10


async def test_a_cut_before_has_no_effect_and_a_cut_after_has(server: SimServer, client: httpx.AsyncClient) -> None:
    server.world.faults.add(Rule(cut_before(), method="POST"))
    with pytest.raises(httpx.TransportError):
        await client.post(CONTENT, data=NEW)
    assert (await client.get(CONTENT, params={"vmid": "9999"})).json()["data"] == []
    server.world.faults.add(Rule(cut_after(), method="POST"))
    with pytest.raises(httpx.TransportError):
        await client.post(CONTENT, data=NEW)
    assert len((await client.get(CONTENT, params={"vmid": "9999"})).json()["data"]) == 1


async def test_each_host_has_a_url_and_a_dark_one_does_not_answer(server: SimServer) -> None:
    async with _client(server.urls[1], server.ca_file) as second:
        status = await second.get("/api2/json/nodes/localhost/qemu")
        assert {vm["vmid"] for vm in status.json()["data"]} == {121, 122}
        server.world.broadcasts.darken("pve2", "cut")
        with pytest.raises(httpx.TransportError):
            await second.get("/api2/json/version")


async def test_the_control_door_shows_and_changes_the_world(server: SimServer, client: httpx.AsyncClient) -> None:
    await client.get("/api2/json/version")
    log = (await client.get("/__sim__/log")).json()
    assert [entry["path"] for entry in log["entries"]] == ["/version"]
    rule = {"path": "/version", "action": {"kind": "answer", "status": 596, "reason": "Broken pipe"}}
    assert (await client.post("/__sim__/faults", json=rule)).json() == {"rules": 1}
    assert (await client.get("/api2/json/version")).status_code == 596
    assert (await client.get("/__sim__/log", params={"since": log["next"]})).json()["entries"][0]["status"] == 596
    state = (await client.get("/__sim__/world")).json()
    assert state["vms"]["111"]["plugged"] == {"scsi0": "local-lvm:vm-111-disk-0"}


async def test_the_control_door_takes_quorum_and_storages_away_and_hands_the_state_out(
    server: SimServer, client: httpx.AsyncClient
) -> None:
    await client.post("/__sim__/cluster", json={"quorate": False})
    refused = await client.put("/api2/json/nodes/pve1/qemu/111/config", data={"delete": "scsi0"})
    assert refused.reason_phrase.endswith("Permission denied")
    await client.post("/__sim__/cluster", json={"quorate": True})
    await client.post("/__sim__/storages/local", json={"unmounted": True, "locked": False})
    assert (await client.post(CONTENT, data=NEW)).reason_phrase.startswith("unable to activate storage 'local'")
    state = (await client.get("/__sim__/state")).json()
    loaded = World.from_dict(state)
    assert loaded.storages.definitions["local"].unmounted
    assert loaded.vms.keys() == server.world.vms.keys()


async def _start(tmp_path: Path, *args: str) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
    ready = tmp_path / "ready.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.pvesim", "--ready-file", str(ready), "--state-dir", str(tmp_path / "state"), *args,
        cwd=ROOT_DIR, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(20):
        while not ready.exists():
            assert process.returncode is None
            await asyncio.sleep(0.02)
    document: dict[str, Any] = json.loads(ready.read_text())
    return process, document


async def test_as_a_process_it_serves_a_world_file_and_ends_on_sigterm(tmp_path: Path) -> None:
    world = tmp_path / "world.yaml"
    world.write_text(
        "nodes: {alone: {}}\ntokens: {'a@pve!t': {secret: s3cret}}\nstorages: {local: {type: dir, path: /var/lib/vz}}\n"
    )
    process, ready = await _start(tmp_path, "--config", str(world), "--release", "8.4", "--clock-scale", "20")
    async with _client(ready["url"], Path(ready["ca_file"])) as client:
        nodes = await client.get("/api2/json/nodes", headers={"Authorization": "PVEAPIToken=a@pve!t=s3cret"})
        assert nodes.json()["data"][0]["node"] == "alone"
        version = await client.get("/api2/json/version", headers={"Authorization": "PVEAPIToken=a@pve!t=s3cret"})
        assert version.json()["data"]["release"] == "8.4"
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


@needs_root
async def test_as_a_process_it_leaves_no_loop_device_behind(tmp_path: Path) -> None:
    process, ready = await _start(tmp_path, "--blocks", "loop")
    async with _client(ready["url"], Path(ready["ca_file"])) as client:
        volid = (await client.post(CONTENT, data=NEW)).json()["data"]
        await client.put("/api2/json/nodes/pve1/qemu/111/config", data={"scsi1": f"{volid},wwn=0x5056432d49443031"})
    node = Path(ready["state_dir"]) / "vm-111" / "dev" / "sdb"
    assert node.is_block_device()
    assert _loops_on(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert await _none_left_on(tmp_path)


async def _none_left_on(folder: Path) -> bool:
    """Whether no loop device is left; one that somebody else looks at just then goes when they have looked."""
    for _ in range(50):
        if not _loops_on(folder):
            return True
        await asyncio.sleep(0.1)
    return False


def _loops_on(folder: Path) -> list[str]:
    backing_files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(backing) for backing in backing_files if str(folder) in backing.read_text()]
