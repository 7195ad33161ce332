"""Series about Proxmox VE: the peers' own names for whole operations, and one pair for the requests at the client's
door.

The peers count operations (`request="attachVolume"`), not HTTP requests; dashboards made for them keep working.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from appkit.clock import SystemClock
from appkit.metrics import Metrics

_PEER_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class PveMetrics:
    """The metric objects, made in the registry of `metrics`; share one among all regions of a process."""

    def __init__(self, metrics: Metrics) -> None:
        self._clock = SystemClock()
        self._operation_s = metrics.histogram(
            "proxmox_api_request_duration_seconds",
            "Duration of an operation on Proxmox VE.",
            ["request"],
            buckets=_PEER_BUCKETS_S,
        )
        self._operation_errors = metrics.counter(
            "proxmox_api_request_errors", "Operations on Proxmox VE that failed.", ["request"]
        )
        self._request_s = metrics.histogram(
            "pvecloud_proxmox_request_duration_seconds",
            "Duration of one HTTP request to Proxmox VE.",
            ["region", "method", "route", "purpose"],
        )
        self._requests = metrics.counter(
            "pvecloud_proxmox_requests",
            "HTTP requests to Proxmox VE.",
            ["region", "method", "route", "purpose", "status"],
        )

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Time the body as one operation, under the peers' name for it (createVolume, …). Inside a running loop."""
        started = self._clock.monotonic()
        try:
            yield
        except BaseException:
            self._operation_errors.labels(name).inc()
            raise
        finally:
            self._operation_s.labels(name).observe(self._clock.monotonic() - started)

    def request_done(self, region: str, method: str, route: str, purpose: str, status: int, duration_s: float) -> None:
        """Count one HTTP request; `status` 0 means that no answer came."""
        self._request_s.labels(region, method, route, purpose).observe(duration_s)
        self._requests.labels(region, method, route, purpose, str(status)).inc()
