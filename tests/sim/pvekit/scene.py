"""One region on the simulated cluster of three hosts, in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.metrics import Metrics
from pvekit.clusters import Clusters, Region
from pvekit.metrics import PveMetrics
from pvekit.settings import CloudConfig, ClusterSettings
from tests.pvesim.transport import SimTransport
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_PRIVILEGES, CSI_SECRET, CSI_TOKEN, three_hosts_dict

GIB = 1 << 30
# What Proxmox VE 9.2 takes for each thing, so that concurrent requests overlap as they do in life.
MEASURED = "as measured"


def settings_with(**more: Any) -> ClusterSettings:
    values = {"region": "cluster-1", "url": "https://pve1:8006", "token_id": CSI_TOKEN, "token_secret": CSI_SECRET}
    return ClusterSettings.model_validate({**values, **more})


def clusters_on(
    settings: ClusterSettings, transport: Callable[[ClusterSettings], httpx.AsyncBaseTransport] | None = None
) -> Clusters:
    return Clusters.build(
        CloudConfig(clusters=(settings,)),
        transport_for=transport,
        clock=SystemClock(),
        metrics=PveMetrics(Metrics(CollectorRegistry())),
    )


def new_world(*, without: str = "", **overrides: Any) -> World:
    """A fresh cluster with the recorded durations; `without` takes one privilege from the CSI role."""
    roles = {"CSI": [privilege for privilege in CSI_PRIVILEGES if privilege != without]}
    defaults = {"profile": MEASURED, "roles": roles | {"CCM": ["VM.Audit"]}}
    return World.from_dict(three_hosts_dict(**(defaults | overrides)))


@asynccontextmanager
async def warm_region(world: World) -> AsyncIterator[Region]:
    """A region whose inventory has been read once; nothing runs in the background."""
    clusters = clusters_on(settings_with(), lambda _: SimTransport(world))
    region = clusters.get("cluster-1")
    await region.inventory.refresh()
    try:
        yield region
    finally:
        await clusters.aclose()
        await world.aclose()
