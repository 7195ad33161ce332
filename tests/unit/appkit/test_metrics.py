import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from appkit.metrics import Metrics, service_registry
from appkit.version import __version__


def test_asking_twice_gives_the_same_metric() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.counter("calls", "Calls.", ("verb",)).labels("get").inc()
    metrics.counter("calls", "Calls.", ("verb",)).labels("get").inc()
    assert metrics.registry.get_sample_value("calls_total", {"verb": "get"}) == 2


def test_one_name_cannot_be_two_kinds() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.gauge("depth", "Depth.")
    with pytest.raises(TypeError, match="depth is a Gauge"):
        metrics.histogram("depth", "Depth.")


def test_a_service_shows_its_build_and_its_process() -> None:
    text = generate_latest(service_registry("ccm")).decode()
    assert f'pvecloud_build_info{{service="ccm",version="{__version__}"}} 1.0' in text
    assert "process_resident_memory_bytes" in text
