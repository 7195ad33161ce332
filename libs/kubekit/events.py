"""Events on objects, for those who look with `kubectl describe`.

Same behaviour as client-go's recorder: a repeated event is counted up by a patch, many similar ones are combined, and
an object that causes too many is cut off for a while. Must never hold up, fail or outlive the work it reports:
`event()` only queues, and whatever cannot be sent is dropped and counted.
"""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from appkit.backoff import Backoff
from appkit.logs import get_logger, mask
from kubekit.errors import (
    KubeAlreadyExists,
    KubeError,
    KubeNotFound,
    KubeUnavailable,
    KubeUnknownOutcome,
    KubeUnreachable,
)
from kubekit.objects import Object, reference_to, resource_path
from kubekit.sessions import MERGE_PATCH, KubeSession

_log = get_logger(__name__)

QUEUE_LENGTH = 1000
REMEMBERED = 4096
SIMILAR_LIMIT, SIMILAR_WINDOW_S = 10, 600.0
BURST, REFILL_S = 25, 300.0
MESSAGE_LENGTH = 1024
ATTEMPTS = 12
_BACKOFF = Backoff(1, 2, 10)

EventType = Literal["Normal", "Warning"]
V = TypeVar("V")


class _Recent(OrderedDict[Any, V]):
    """The `REMEMBERED` entries used last."""

    def entry(self, key: Any, make: Callable[[], V]) -> V:
        if key not in self:
            self[key] = make()
        self.move_to_end(key)
        while len(self) > REMEMBERED:
            self.popitem(last=False)
        return self[key]


@dataclass
class _Bucket:
    tokens: float
    at: float

    def take(self, now: float) -> bool:
        self.tokens = min(BURST, self.tokens + (now - self.at) / REFILL_S)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass
class _Similar:
    messages: set[str]
    last_at: float


@dataclass
class _Sent:
    name: str = ""
    count: int = 0
    first: str = ""


@dataclass(frozen=True)
class _Occurrence:
    about: dict[str, str]
    type: EventType
    reason: str
    message: str
    moment: str
    name: str

    @property
    def group(self) -> tuple[str, ...]:
        # Without the resource version: an object that changes in between is still the same object.
        return (
            *(value for key, value in sorted(self.about.items()) if key != "resourceVersion"),
            self.type,
            self.reason,
        )


class EventRecorder:
    """Sends events as `component`. Give `run()` to an `appkit.background.Background`."""

    def __init__(self, session: KubeSession, component: str, *, instance: str = "") -> None:
        self._session = session
        self._component = component
        self._instance = instance or component
        self._queue: asyncio.Queue[_Occurrence] = asyncio.Queue(QUEUE_LENGTH)
        self._buckets: _Recent[_Bucket] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._sent: _Recent[_Sent] = _Recent()
        self._sequence = itertools.count()

    def event(self, obj: Object, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the API's word
        """Report `reason` (CamelCase, fixed) on `obj` (an object, or a reference to one). Never waits, never raises."""
        moment = self._session.clock.now()
        about = reference_to(obj) if "metadata" in obj else dict(obj)
        occurrence = _Occurrence(
            about,
            type,
            reason,
            mask(message)[:MESSAGE_LENGTH],
            moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            # Chosen here, so that a creation whose answer was lost is repeated under the same name.
            f"{about['name']}.{int(moment.timestamp() * 1e6) * 1000 + next(self._sequence) % 1000:x}",
        )
        try:
            self._queue.put_nowait(occurrence)
        except asyncio.QueueFull:
            self._drop("queue full", occurrence)

    async def run(self) -> None:
        """Send what is queued until cancelled."""
        while True:
            occurrence = await self._queue.get()
            try:
                await self._deliver(occurrence)
            finally:
                self._queue.task_done()

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything queued is sent or dropped, at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._queue.join()
        except TimeoutError:
            _log.warning("events left unsent", extra={"count": self._queue.qsize()})

    async def _deliver(self, occurrence: _Occurrence) -> None:
        now = self._session.clock.monotonic()
        source = tuple(sorted((key, value) for key, value in occurrence.about.items() if key != "resourceVersion"))
        if not self._buckets.entry(source, lambda: _Bucket(BURST, now)).take(now):
            self._drop("too many for one object", occurrence)
            return
        message, key = self._combined(occurrence, now)
        sent = self._sent.entry(key, _Sent)
        sent.count += 1
        sent.first = sent.first or occurrence.moment
        for delay_s in itertools.islice(_BACKOFF.delays(), ATTEMPTS):
            try:
                await self._send(occurrence, message, sent)
                return
            except (KubeUnavailable, KubeUnreachable, KubeUnknownOutcome):
                await self._session.clock.sleep(delay_s)
            except KubeError as error:
                _log.warning("event refused: %s", error, extra={"reason": occurrence.reason})
                self._drop("refused", occurrence)
                return
        self._drop("unreachable", occurrence)

    def _combined(self, occurrence: _Occurrence, now: float) -> tuple[str, tuple[str, ...]]:
        """Message and identity of what is sent: its own, or that of its group once that has too many messages."""
        similar = self._similar.entry(occurrence.group, lambda: _Similar(set(), now))
        if now - similar.last_at > SIMILAR_WINDOW_S:
            similar.messages.clear()
        similar.last_at = now
        similar.messages.add(occurrence.message)
        if len(similar.messages) < SIMILAR_LIMIT:
            return occurrence.message, (*occurrence.group, occurrence.message)
        similar.messages.pop()  # stays at the limit instead of growing with every new message
        return f"(combined from similar events): {occurrence.message}", occurrence.group

    async def _send(self, occurrence: _Occurrence, message: str, sent: _Sent) -> None:
        namespace = occurrence.about.get("namespace") or "default"
        if sent.name:
            path = resource_path("v1", "events", namespace=namespace, name=sent.name)
            body: dict[str, Any] = {"count": sent.count, "lastTimestamp": occurrence.moment, "message": message}
            try:
                await self._session.request("PATCH", path, body=body, content_type=MERGE_PATCH)
                return
            except KubeNotFound:
                # Events are deleted after an hour; the next one starts anew.
                sent.name, sent.count, sent.first = "", 1, occurrence.moment
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": occurrence.name, "namespace": namespace},
            "involvedObject": occurrence.about,
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": message,
            "count": sent.count,
            "firstTimestamp": sent.first,
            "lastTimestamp": occurrence.moment,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        with contextlib.suppress(KubeAlreadyExists):
            await self._session.request("POST", resource_path("v1", "events", namespace=namespace), body=body)
        sent.name = occurrence.name

    def _drop(self, why: str, occurrence: _Occurrence) -> None:
        self._session.metrics.events_dropped.labels(why).inc()
        _log.debug(
            "event dropped: %s", why, extra={"reason": occurrence.reason, "object": occurrence.about.get("name")}
        )
