"""One region `r1` on a fake cluster of three hosts."""

import httpx
import pytest
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.metrics import Metrics
from pvekit.client import PveClient
from pvekit.clusters import Clusters, Region
from pvekit.metrics import PveMetrics
from pvekit.settings import CloudConfig, ClusterSettings
from tests.unit.pvekit.fake_pve import FakePve, FakeVm


def settings_with(**more: object) -> ClusterSettings:
    values = {"region": "r1", "url": "https://pve:8006", "token_id": "csi@pve!csi", "token_secret": "s3cr3t-value"}
    return ClusterSettings.model_validate({**values, **more})


def client_on(transport: httpx.AsyncBaseTransport, **more: object) -> PveClient:
    return PveClient(settings_with(**more), transport=transport, clock=SystemClock(), metrics=new_metrics())


def new_metrics() -> PveMetrics:
    return PveMetrics(Metrics(CollectorRegistry()))


@pytest.fixture
def pve() -> FakePve:
    fake = FakePve()
    fake.vms = {111: FakeVm("pve1", "worker-11"), 121: FakeVm("pve1", "worker-12"), 131: FakeVm("pve2", "worker-21")}
    return fake


@pytest.fixture
def clusters(pve: FakePve) -> Clusters:
    return Clusters.build(
        CloudConfig(clusters=(settings_with(),)),
        transport_for=lambda _: pve,
        clock=SystemClock(),
        metrics=new_metrics(),
    )


@pytest.fixture
def region(clusters: Clusters) -> Region:
    return clusters.get("r1")
