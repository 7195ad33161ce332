"""Metric objects in a registry that is passed in, never prometheus_client's global one.

Must not name metrics: each kit's `metrics` module does, and counts at its doors.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from appkit.version import __version__

M = TypeVar("M", bound=MetricWrapperBase)

# Seconds; from a cached look-up to a Proxmox task that waits for a slow storage.
DEFAULT_BUCKETS_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Makes metrics in `registry`; asking again for a name gives the same object, so that several users share it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._made: dict[str, MetricWrapperBase] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """A number that only grows."""
        return self._once(name, Counter, lambda: Counter(name, text, labels, registry=self.registry))

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """A number that goes up and down."""
        return self._once(name, Gauge, lambda: Gauge(name, text, labels, registry=self.registry))

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = DEFAULT_BUCKETS_S
    ) -> Histogram:
        """A distribution, in the unit that the name ends with."""
        return self._once(
            name, Histogram, lambda: Histogram(name, text, labels, registry=self.registry, buckets=buckets)
        )

    def _once(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make()
        if not isinstance(found, kind):
            raise TypeError(f"metric {name} is a {type(found).__name__} and cannot be a {kind.__name__} as well")
        return found


def service_registry(service: str) -> CollectorRegistry:
    """A registry with what every process shows: its memory, open files, garbage collection, and which build it is."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    info = Gauge(
        "pvecloud_build_info", "Always 1; the labels say what runs.", ["service", "version"], registry=registry
    )
    info.labels(service, __version__).set(1)
    return registry
