"""Request budgets with a warm inventory; task polls and background requests are told apart by pvesim's log."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.metrics import Metrics
from csi_controller.regions import Regions
from pvekit.clusters import Clusters
from pvekit.metrics import PveMetrics
from pvekit.settings import CloudConfig, ClusterSettings
from tests.pvesim.transport import SimTransport
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, three_hosts
from tests.sim.csi_controller.scene import GIB, REGION, Scene


async def test_the_life_of_a_volume(scene: Scene) -> None:
    with scene.counted() as spent:
        volume = await scene.create()
    assert spent.foreground == 1
    with scene.counted() as spent:
        again = await scene.create()
    assert again == volume
    assert spent.foreground == 2
    with scene.counted() as spent:
        context = await scene.publish(volume)
    assert spent.foreground <= 3
    assert scene.is_live(volume, 111)
    with scene.counted() as spent:
        assert await scene.publish(volume) == context
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.expand(volume, 2 * GIB)
    assert spent.foreground <= 3
    with scene.counted() as spent:
        await scene.expand(volume, 2 * GIB)
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.unpublish(volume)
    assert spent.foreground <= 3
    assert scene.attachments() == {}
    with scene.counted() as spent:
        await scene.unpublish(volume)
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.delete(volume)
    assert spent.foreground <= 2
    assert scene.volids() == []
    with scene.counted() as spent:
        await scene.delete(volume)
    assert spent.foreground <= 2


async def test_polls_follow_only_tasks(scene: Scene) -> None:
    with scene.counted() as spent:
        volume = await scene.create()
        await scene.publish(volume)
        await scene.expand(volume, 2 * GIB)
        await scene.unpublish(volume)
        await scene.delete(volume)
    # Tasks that end at once are asked about once each: two config writes and the resize; the deletion answers itself.
    assert len(spent.of("poll")) == 3


@pytest.mark.looptime
async def test_background_requests_a_minute() -> None:
    """The whole service on virtual time and without sockets; what it asks by itself, call or no call."""
    world = three_hosts()
    regions = Clusters.build(
        CloudConfig(
            clusters=(
                ClusterSettings(region=REGION, urls=("https://pve1",), token_id=CSI_TOKEN, token_secret=CSI_SECRET),  # type: ignore[arg-type]
            )
        ),
        transport_for=lambda settings: SimTransport(world),
        clock=SystemClock(),
        metrics=PveMetrics(Metrics(CollectorRegistry())),
        drives=False,
    )
    regions.start()
    await Regions(regions).settle()
    await asyncio.sleep(120)
    mark = len(world.log)
    await asyncio.sleep(600)
    a_minute = len(world.log.since(mark, "background")) / 10
    await regions.aclose()
    await world.aclose()
    assert not world.log.since(mark, "foreground")
    # 6 readings of the resources, 1 of the storages, and each of the 6 VMs once.
    assert a_minute <= 6 + 1 + 6 + 1
