"""The metrics of the Kubernetes side, under the names that client-go's users have on their dashboards.

Must not count anything itself: the session, the work queue and the Lease holder do, at their doors.
"""

from appkit.metrics import Metrics


class KubeMetrics:
    """Every metric of kubekit in one registry; `verb` is Kubernetes' (get, list, watch …), `resource` has no names."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = metrics.counter(
            "rest_client_requests_total", "Kubernetes API requests by outcome.", ("verb", "resource", "code")
        )
        self.request_seconds = metrics.histogram(
            "rest_client_request_duration_seconds", "Time until the answer was read whole.", ("verb", "resource")
        )
        self.relists = metrics.counter("kube_informer_lists_total", "Full lists an informer read.", ("resource",))
        self.queue_depth = metrics.gauge("workqueue_depth", "Keys that wait to be processed.", ("name",))
        self.queue_adds = metrics.counter("workqueue_adds_total", "Keys added.", ("name",))
        self.queue_retries = metrics.counter("workqueue_retries_total", "Keys put back after an error.", ("name",))
        self.queue_wait_seconds = metrics.histogram(
            "workqueue_queue_duration_seconds", "Time a key waited for its turn.", ("name",)
        )
        self.queue_work_seconds = metrics.histogram(
            "workqueue_work_duration_seconds", "Time one processing of a key took.", ("name",)
        )
        self.leading = metrics.gauge("leader_election_master_status", "1 while this process holds it.", ("name",))
        self.events_dropped = metrics.counter("kube_events_dropped_total", "Events that were not sent.", ("reason",))
