"""Leadership by a coordination.k8s.io/v1 Lease.

The same protocol as client-go's, so that either may stand by for the other: another's hold is judged by when this
process saw the record change, never by the times written in it. Must not let the body run on a hold that may have
expired: every request has a time-out, the hold counts from before the last renewal was sent, and it is given up
`renew_s` later although it lasts `lease_s`. Released on exit, so that a successor need not wait.
"""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from appkit.backoff import Backoff
from appkit.errors import Unavailable
from appkit.logs import get_logger
from kubekit.errors import KubeAlreadyExists, KubeConflict, KubeError, KubeNotFound
from kubekit.objects import resource_path
from kubekit.sessions import KubeSession

_log = get_logger(__name__)

_API = "coordination.k8s.io/v1"


def process_identity() -> str:
    """An identity for this process that no other has: host name and a random part, as client-go writes it."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaseLost(Unavailable):
    """Another holds the Lease, or it could not be renewed in time; the body was cancelled."""


class LeaseHolder:
    """Competes for one Lease under `identity` (unique per process: `process_identity()`)."""

    def __init__(
        self,
        session: KubeSession,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_s: float = 15,
        renew_s: float = 10,
        retry_s: float = 2,
    ) -> None:
        if not lease_s > renew_s > retry_s > 0:
            raise ValueError(f"a Lease needs lease_s > renew_s > retry_s > 0, not {lease_s}, {renew_s}, {retry_s}")
        self._session = session
        self._collection = resource_path(_API, "leases", namespace=namespace)
        self._path = resource_path(_API, "leases", namespace=namespace, name=name)
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._lease_s, self._renew_s, self._retry_s = lease_s, renew_s, retry_s
        self._lease: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._held = False
        self._held_since = 0.0

    async def lead(self, body: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        """Wait for the Lease, run `body` while it is held, release it when `body` has ended or is cancelled.

        Returns without running `body` when `stop` is set while waiting. While `body` runs, `stop` is the body's to
        watch. Raises LeaseLost after `body` was cancelled for the lack of a Lease, and whatever `body` raises.
        """
        if not await self._acquire(stop):
            return
        gauge = self._session.metrics.leading.labels(self._name)
        gauge.set(1)
        _log.info("leading", extra={"lease": f"{self._namespace}/{self._name}", "identity": self._identity})
        leading = asyncio.ensure_future(body())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not leading.done():
                renewing.result()
            else:
                leading.result()
        finally:
            gauge.set(0)
            for task in (leading, renewing):
                task.cancel()
            # The body first and wholly: the Lease must not be free while it still runs.
            await asyncio.gather(leading, renewing, return_exceptions=True)
            await self._release()

    async def _acquire(self, stop: asyncio.Event) -> bool:
        jitter = Backoff(self._retry_s, 1, self._retry_s, jitter=0.5).delays()
        while not stop.is_set():
            try:
                if await self._try():
                    return True
            except KubeError as error:
                _log.warning("cannot read or take the Lease: %s", error, extra={"lease": self._name})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next(jitter)):
                    await stop.wait()
        return False

    async def _renew(self) -> None:
        """Renew until that fails for `renew_s`; then, or when another is seen to hold it, raises LeaseLost."""
        problem = ""
        while True:
            await self._session.clock.sleep(self._retry_s)
            deadline = self._held_since + self._renew_s
            left_s = deadline - self._session.clock.monotonic()
            if left_s > 0:
                try:
                    async with asyncio.timeout(left_s):
                        if not await self._try():
                            self._held = False
                            raise LeaseLost(f"Lease {self._path}: another holds it now")
                        continue
                except KubeError as error:
                    problem = str(error)
                except TimeoutError:
                    problem = "no answer"
                _log.warning("Lease not renewed: %s", problem, extra={"lease": self._name})
            if self._session.clock.monotonic() >= deadline:
                raise LeaseLost(f"Lease {self._path}: not renewed for {self._renew_s} s: {problem}")

    async def _try(self) -> bool:
        """Take or renew the Lease if it is free, expired or ours; whether it is held now."""
        if self._lease is None or not self._held:
            await self._observe()
        if self._lease is not None and not self._takeable():
            return False
        sent_at = self._session.clock.monotonic()
        try:
            written = await self._write(self._wanted())
        except (KubeConflict, KubeAlreadyExists, KubeNotFound):
            # Changed under us: by another, or by our own write whose answer was lost. The record tells.
            await self._observe()
            if self._lease is not None and not self._takeable():
                return False
            sent_at = self._session.clock.monotonic()
            try:
                written = await self._write(self._wanted())
            except (KubeConflict, KubeAlreadyExists, KubeNotFound):
                return False
        self._note(written)
        self._held, self._held_since = True, sent_at
        return True

    def _takeable(self) -> bool:
        spec = self._spec()
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        lasts_s = float(spec.get("leaseDurationSeconds") or self._lease_s)
        return self._session.clock.monotonic() >= self._seen_at + lasts_s

    async def _observe(self) -> None:
        try:
            self._note(await self._session.request("GET", self._path, timeout_s=self._request_s))
        except KubeNotFound:
            self._lease = None

    def _note(self, lease: dict[str, Any]) -> None:
        if self._lease is None or self._lease["spec"] != lease.get("spec"):
            self._seen_at = self._session.clock.monotonic()
        self._lease = {**lease, "spec": lease.get("spec") or {}}

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self._lease["spec"] if self._lease else {}
        return spec

    def _wanted(self) -> dict[str, Any]:
        before, now = self._spec(), _micro_time(self._session.clock.now())
        renews = before.get("holderIdentity") == self._identity
        return {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._lease_s)),
            "acquireTime": before.get("acquireTime", now) if renews else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if renews or not before else 1),
        }

    async def _write(self, spec: dict[str, Any]) -> dict[str, Any]:
        if self._lease is None:
            body = {
                "apiVersion": _API,
                "kind": "Lease",
                "metadata": {"namespace": self._namespace, "name": self._name},
                "spec": spec,
            }
            return await self._session.request("POST", self._collection, body=body, timeout_s=self._request_s)
        body = {**self._lease, "spec": spec}
        return await self._session.request("PUT", self._path, body=body, timeout_s=self._request_s)

    async def _release(self) -> None:
        """Say that the Lease is free. An error is logged only: it runs out by itself."""
        if not self._held:
            return
        self._held = False
        try:
            try:
                await self._write_free()
            except KubeConflict:
                # By our own renewal, cancelled on the way, or by another; only the former is ours to undo.
                await self._observe()
                if self._spec().get("holderIdentity") == self._identity:
                    await self._write_free()
        except KubeError as error:
            _log.warning("Lease not released, it will run out: %s", error, extra={"lease": self._name})

    async def _write_free(self) -> None:
        await self._write({**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1})

    @property
    def _request_s(self) -> float:
        return self._renew_s / 2


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
