"""How long Nodes wait, under the names the cloud-provider framework gave these series."""

from appkit.metrics import Metrics

_BUCKETS_S = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)


class CcmMetrics:
    """The service's own series."""

    def __init__(self, metrics: Metrics) -> None:
        self._untainted = metrics.histogram(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "From a Node's creation until its uninitialized taint was removed.",
            buckets=_BUCKETS_S,
        )
        self._synced = metrics.histogram(
            "node_controller_initial_node_sync_delay_seconds",
            "From a Node's creation until it was initialised whole.",
            buckets=_BUCKETS_S,
        )
        self._running = metrics.gauge(
            "running_managed_controllers", "1 for each controller that runs.", ("name", "manager")
        )

    def untainted_after(self, age_s: float) -> None:
        """The taint of a Node of this age was removed."""
        self._untainted.observe(age_s)

    def synced_after(self, age_s: float) -> None:
        """A Node of this age was initialised."""
        self._synced.observe(age_s)

    def controller_runs(self, name: str, *, runs: bool) -> None:
        """`name` as in the framework (`cloud-node`)."""
        self._running.labels(name, "cloud-controller-manager").set(1 if runs else 0)
