"""Keys to be processed: each once at a time, with its own growing delay after errors.

Must not know what a key means or read objects: `sync` does, from the informer's copy, and must be right whenever it is
called, also too often.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator

from prometheus_client import CollectorRegistry

from appkit.backoff import Backoff
from appkit.clock import Clock, SystemClock
from appkit.errors import DriverError
from appkit.logs import bind, get_logger
from appkit.metrics import Metrics
from kubekit.metrics import KubeMetrics

_log = get_logger(__name__)

# client-go's default, but with a ceiling at which a repaired cause is still noticed soon.
_BACKOFF = Backoff(0.1, 2, 120)


class WorkQueue:
    """Calls `sync(key)` for every key added, by at most `workers` at once, never twice at once for the same key.

    A key added while it waits is processed once; added while it is processed, once more afterwards. A `sync` that
    raises is repeated after a delay that grows per key until it succeeds; `add` in the meantime processes it at once.
    """

    def __init__(
        self,
        sync: Callable[[str], Awaitable[None]],
        *,
        name: str,
        workers: int = 1,
        backoff: Backoff = _BACKOFF,
        metrics: KubeMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._sync = sync
        self._name = name
        self._workers = workers
        self._backoff = backoff
        self._metrics = metrics or KubeMetrics(Metrics(CollectorRegistry()))
        self._clock = clock or SystemClock()
        self._waiting: OrderedDict[str, float] = OrderedDict()  # key → when it was added
        self._again: set[str] = set()
        self._running: set[str] = set()
        self._delays: dict[str, Iterator[float]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Have `key` processed as soon as a worker is free. Does nothing after `shut_down`."""
        if self._closed:
            return
        if timer := self._timers.pop(key, None):
            timer.cancel()
        self._metrics.queue_adds.labels(self._name).inc()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = self._clock.monotonic()
            self._metrics.queue_depth.labels(self._name).set(len(self._waiting))
            self._wake.set()

    def add_after(self, key: str, delay_s: float) -> None:
        """`add(key)` after `delay_s`, unless it is added before or is already due sooner."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if self._closed or (known is not None and known.when() <= loop.time() + delay_s):
            return
        if known is not None:
            known.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    def shut_down(self) -> None:
        """Take no more keys and forget those that wait; `run` returns when the ones being processed are done."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()
        self._wake.set()

    async def run(self) -> None:
        """Process keys until `shut_down`, or until cancelled, which cancels what is being processed."""
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._closed or running:
                while self._waiting and len(running) < self._workers:
                    key, added_at = self._waiting.popitem(last=False)
                    self._running.add(key)
                    running.add(asyncio.create_task(self._process(key, added_at), name=f"{self._name} {key}"))
                self._metrics.queue_depth.labels(self._name).set(len(self._waiting))
                self._wake.clear()
                if self._closed and running:
                    await asyncio.wait(running)
                else:
                    await self._wake.wait()
                for task in [each for each in running if each.done()]:
                    running.discard(task)
                    task.result()
        finally:
            self.shut_down()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _process(self, key: str, added_at: float) -> None:
        started = self._clock.monotonic()
        self._metrics.queue_wait_seconds.labels(self._name).observe(started - added_at)
        try:
            with bind(queue=self._name, key=key):
                await self._attempt(key)
        finally:
            self._metrics.queue_work_seconds.labels(self._name).observe(self._clock.monotonic() - started)
            self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            # Wakes `run` after this task is done, so that it sees the free worker.
            asyncio.get_running_loop().call_soon(self._wake.set)

    async def _attempt(self, key: str) -> None:
        try:
            await self._sync(key)
        except DriverError as error:
            self._retry(key, str(error), None)
        except Exception as error:  # noqa: BLE001 - a bug in one key must not stop the others; it is logged in full
            self._retry(key, f"unexpected error: {error!r}", error)
        else:
            self._delays.pop(key, None)

    def _retry(self, key: str, text: str, bug: Exception | None) -> None:
        delays = self._delays.get(key)
        if delays is None:
            delays = self._delays[key] = self._backoff.delays()
        delay_s = next(delays)
        level = logging.ERROR if bug else logging.WARNING
        _log.log(level, "failed, will retry: %s", text, extra={"retry_s": round(delay_s, 3)}, exc_info=bug)
        self._metrics.queue_retries.labels(self._name).inc()
        self.add_after(key, delay_s)
