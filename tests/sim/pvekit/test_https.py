"""Over real sockets: certificates, fail-over between hosts, rotated tokens, background work."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pvekit.clusters import Clusters
from pvekit.errors import PveDenied, PveUnreachable
from tests.pvesim.server import SimServer
from tests.pvesim.worlds import CSI_SECRET, three_hosts
from tests.sim.pvekit.scene import GIB, clusters_on, settings_with


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SimServer]:
    serving = SimServer(three_hosts(), tmp_path)
    await serving.start()
    try:
        yield serving
    finally:
        await serving.aclose()


async def version_from(clusters: Clusters) -> tuple[int, int]:
    try:
        return await clusters.get("cluster-1").cluster.version()
    finally:
        await clusters.aclose()


async def test_the_clusters_own_ca_is_verified(server: SimServer) -> None:
    assert await version_from(clusters_on(settings_with(url=server.urls, ca_file=server.ca_file))) == (9, 2)


async def test_a_certificate_of_nobody_is_refused(server: SimServer) -> None:
    with pytest.raises(PveUnreachable, match=r"(?i)certificate"):
        await version_from(clusters_on(settings_with(url=server.urls)))
    assert server.world.count() == 0


async def test_insecure_asks_for_it(server: SimServer) -> None:
    assert await version_from(clusters_on(settings_with(url=server.urls, insecure=True))) == (9, 2)


async def test_the_next_host_is_asked_when_one_is_down(server: SimServer) -> None:
    server.world.broadcasts.darken("pve1", "no-pveproxy")
    clusters = clusters_on(settings_with(url=server.urls, ca_file=server.ca_file))
    assert await version_from(clusters) == (9, 2)


async def test_nobody_listens() -> None:
    with pytest.raises(PveUnreachable, match="no address answers"):
        await version_from(clusters_on(settings_with(url="https://127.0.0.1:1")))


async def test_a_rotated_token(server: SimServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("00000000-0000-0000-0000-000000000000")
    settings = settings_with(url=server.urls, ca_file=server.ca_file, token_secret=None, token_secret_file=secret)
    clusters = clusters_on(settings)
    region = clusters.get("cluster-1")
    with pytest.raises(PveDenied):
        await region.cluster.version()
    secret.write_text(f"{CSI_SECRET}\n")
    assert await version_from(clusters) == (9, 2)


async def test_a_whole_region_at_work(server: SimServer) -> None:
    clusters = clusters_on(settings_with(url=server.urls, ca_file=server.ca_file))
    clusters.start()
    region = clusters.get("cluster-1")
    try:
        await region.inventory.wait_ready(10)
        volids = [await region.storage.allocate("pve1", "ceph", 9999, f"vm-9999-{n}", GIB) for n in range(8)]
        got = await asyncio.gather(*(region.writers.attach(111, volid, {}) for volid in volids))
        assert {each.slot for each in got} == set(range(1, 9))
        assert [each.vmid for each in await region.drives.holders(volids[0])] == [111]
        assert await asyncio.gather(*(region.writers.detach(111, volid) for volid in volids)) == [True] * 8
        for volid in volids:
            await region.storage.delete("pve2", volid)
    finally:
        await clusters.aclose()
    assert set(server.world.vms[111].plugged) == {"scsi0"}
