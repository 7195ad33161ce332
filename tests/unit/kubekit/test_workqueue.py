import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from appkit.backoff import Backoff
from appkit.errors import Unavailable
from appkit.logs import _bound
from appkit.metrics import Metrics
from kubekit.metrics import KubeMetrics
from kubekit.workqueue import WorkQueue

pytestmark = pytest.mark.looptime


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


class Work:
    """A `sync` that takes a second and fails as often as told."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.log: list[tuple[float, str]] = []
        self.running: set[str] = set()
        self.most = 0
        self.error: Exception = Unavailable("not now")

    async def __call__(self, key: str) -> None:
        assert key not in self.running, "the same key twice at once"
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        self.log.append((now(), key))
        try:
            await asyncio.sleep(1)
            if self.failures.get(key, 0) > 0:
                self.failures[key] -= 1
                raise self.error
        finally:
            self.running.remove(key)


def queue(sync: Callable[[str], Awaitable[None]], **arguments: int) -> WorkQueue:
    return WorkQueue(sync, name="test", backoff=Backoff(2, 2, 60, jitter=0), **arguments)  # type: ignore[arg-type]


async def run_for(queue: WorkQueue, seconds: float) -> None:
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(seconds)
    queue.shut_down()
    await task


async def test_each_key_once_in_order() -> None:
    work = Work()
    keys = queue(work)
    for key in ("a", "b", "a", "b", "c"):
        keys.add(key)
    await run_for(keys, 10)
    assert work.log == [(0, "a"), (1, "b"), (2, "c")]


async def test_a_key_added_while_it_is_processed_is_processed_once_more() -> None:
    work = Work()
    keys = queue(work, workers=4)
    keys.add("a")
    for moment in (0.3, 0.5, 0.7):
        asyncio.get_running_loop().call_later(moment, keys.add, "a")
    await run_for(keys, 10)
    assert work.log == [(0, "a"), (1, "a")]


async def test_workers_share_the_keys() -> None:
    work = Work()
    keys = queue(work, workers=3)
    for index in range(7):
        keys.add(f"k{index}")
    await run_for(keys, 10)
    assert work.most == 3
    assert [moment for moment, _ in work.log] == [0, 0, 0, 1, 1, 1, 2]


async def test_errors_are_repeated_with_a_growing_delay_per_key(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(a=3, b=1)
    keys = queue(work, workers=2)
    keys.add("a")
    keys.add("b")
    await run_for(keys, 40)
    assert [moment for moment, key in work.log if key == "a"] == [0, 3, 8, 17]
    assert [moment for moment, key in work.log if key == "b"] == [0, 3]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert caplog.records[0].getMessage() == "failed, will retry: not now"


async def test_success_forgets_the_delay_and_an_add_does_not_wait_for_it() -> None:
    work = Work(a=2)
    keys = queue(work)
    keys.add("a")
    asyncio.get_running_loop().call_later(1.5, keys.add, "a")
    task = asyncio.create_task(run_for(keys, 60))
    await asyncio.sleep(30)
    work.failures["a"] = 1
    keys.add("a")
    await task
    assert [moment for moment, _ in work.log] == [0, 1.5, 6.5, 30, 33]


async def test_a_bug_in_one_key_is_logged_in_full_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(a=1)
    work.error = KeyError("bug")
    keys = queue(work)
    keys.add("a")
    keys.add("b")
    await run_for(keys, 20)
    assert [key for _, key in work.log] == ["a", "b", "a"]
    (record,) = caplog.records
    assert (record.levelno, bool(record.exc_info)) == (logging.ERROR, True)


async def test_add_after_takes_the_sooner_of_two() -> None:
    work = Work()
    keys = queue(work)
    keys.add_after("a", 10)
    keys.add_after("a", 5)
    keys.add_after("a", 20)
    await run_for(keys, 60)
    assert work.log == [(5, "a")]


async def test_shutting_down_finishes_what_runs_and_forgets_the_rest() -> None:
    work = Work(a=1)
    keys = queue(work)
    keys.add("a")
    keys.add("b")
    keys.add_after("c", 0.9)
    task = asyncio.create_task(keys.run())
    await asyncio.sleep(0.5)
    keys.shut_down()
    keys.add("d")
    await task
    assert now() == 1
    assert work.log == [(0, "a")]
    await asyncio.sleep(60)
    assert work.log == [(0, "a")]


async def test_cancelling_cancels_what_runs() -> None:
    work = Work()
    keys = queue(work)
    keys.add("a")
    task = asyncio.create_task(keys.run())
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (now(), work.running) == (0.5, set())


async def test_the_key_is_bound_to_every_line_of_its_processing() -> None:
    seen: list[dict[str, str]] = []

    async def sync(key: str) -> None:
        seen.append(dict(_bound.get()))

    keys = queue(sync)
    keys.add("a")
    await run_for(keys, 1)
    assert seen == [{"queue": "test", "key": "a"}]


async def test_what_it_counts() -> None:
    registry = CollectorRegistry()
    metrics = KubeMetrics(Metrics(registry))
    work = Work(a=1)
    keys = WorkQueue(work, name="Nodes", backoff=Backoff(2, 2, 60, jitter=0), metrics=metrics)
    keys.add("a")
    keys.add("b")
    assert registry.get_sample_value("workqueue_depth", {"name": "Nodes"}) == 2
    await run_for(keys, 20)
    assert registry.get_sample_value("workqueue_depth", {"name": "Nodes"}) == 0
    assert registry.get_sample_value("workqueue_adds_total", {"name": "Nodes"}) == 3
    assert registry.get_sample_value("workqueue_retries_total", {"name": "Nodes"}) == 1
    assert registry.get_sample_value("workqueue_work_duration_seconds_sum", {"name": "Nodes"}) == 3
    assert registry.get_sample_value("workqueue_queue_duration_seconds_sum", {"name": "Nodes"}) == 1
