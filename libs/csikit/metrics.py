"""What is counted at the gRPC door.

One histogram is both the duration and, by its `_count`, the number of calls by method and code. Its name and labels
are those that CSI drivers share, so that existing dashboards fit.
"""

from grpc import StatusCode

from appkit.metrics import Metrics

OPERATIONS = "csi_plugin_operations_seconds"


class CallMetrics:
    """Made once per process, over the registry that /metrics shows."""

    def __init__(self, metrics: Metrics) -> None:
        self._operations = metrics.histogram(
            OPERATIONS,
            "Duration of CSI calls served, by method and gRPC status; the count is the number of calls.",
            ("method_name", "grpc_status_code"),
        )

    def finished(self, method: str, code: StatusCode, duration_s: float) -> None:
        """Count one call by its outcome."""
        self._operations.labels(method, code_name(code)).observe(duration_s)


def code_name(code: StatusCode) -> str:
    """The code as dashboards and logs of the Go programs write it: `OK`, `InvalidArgument`, `DeadlineExceeded`."""
    return "OK" if code is StatusCode.OK else code.name.title().replace("_", "")
