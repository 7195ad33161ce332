"""Refuse a second operation on the same thing while the first one runs.

Callers of CSI repeat calls after their own time-out, so duplicates are normal; they are refused (ABORTED) rather than
queued. The key is the volume's name, the same for every verb: a create and a delete of one volume must see each other.
Waiting mutual exclusion is appkit.locks; across processes it is Proxmox's digest and the Lease.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from appkit.errors import Pending


class InFlight:
    """The set of running operations of one process."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}

    @contextmanager
    def hold(self, key: str, operation: str = "another operation") -> Iterator[None]:
        """Own `key` inside the body. Raises Pending that names the operation which owns it now."""
        if (running := self._running.get(key)) is not None:
            raise Pending(f"{running} on {key!r} is still running; repeat the call later")
        self._running[key] = operation
        try:
            yield
        finally:
            del self._running[key]

    def running(self) -> dict[str, str]:
        """A copy: key to operation, for logs and tests."""
        return dict(self._running)
