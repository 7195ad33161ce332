"""The ends of a task."""

import asyncio

import httpx
import pytest

from appkit.clock import SystemClock
from pvekit.errors import Call, DigestMismatch, PveUnknownOutcome, TaskFailed, TaskTimeout, TaskUnknown
from pvekit.tasks import TaskDone, Tasks, started
from pvekit.upid import Upid
from tests.unit.pvekit.conftest import client_on
from tests.unit.pvekit.fake_pve import answer_of

UPID = "UPID:pve2:00000345:0001EBD8:6B0DCE75:qmconfig:100:csi@pve!csi:"
pytestmark = pytest.mark.looptime


class TaskHost(httpx.AsyncBaseTransport):
    """Runs for `runs_s`, then has `end`; or answers `trouble` to each poll."""

    def __init__(self, end: str | None = "OK", runs_s: float = 0.0, trouble: httpx.Response | None = None) -> None:
        self.end, self.runs_s, self.trouble = end, runs_s, trouble
        self.began: float | None = None
        self.polls: list[tuple[float, str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        self.began = now if self.began is None else self.began
        self.polls.append((now, request.url.path, request.headers["User-Agent"]))
        if self.trouble is not None:
            return self.trouble
        running = now - self.began < self.runs_s
        data = {"status": "running"} if running else {"status": "stopped", "exitstatus": self.end}
        return httpx.Response(200, json={"data": {key: value for key, value in data.items() if value is not None}})


def tasks_on(host: TaskHost) -> Tasks:
    return Tasks(client_on(host), SystemClock())


async def test_none_is_done_at_once() -> None:
    host = TaskHost()
    assert await tasks_on(host).wait(None) == TaskDone()
    assert not host.polls


async def test_done_is_seen_soon_on_the_upids_host_and_by_a_poll() -> None:
    host = TaskHost()
    began = asyncio.get_running_loop().time()
    assert await tasks_on(host).wait(Upid.parse(UPID)) == TaskDone(0, Upid.parse(UPID))
    when, path, agent = host.polls[0]
    assert when - began == pytest.approx(0.05, abs=0.01)
    assert path.startswith("/api2/json/nodes/pve2/tasks/UPID:pve2:")
    assert agent.endswith("(poll)")


async def test_polls_slow_down_to_two_seconds() -> None:
    host = TaskHost(runs_s=30)
    await tasks_on(host).wait(Upid.parse(UPID))
    gaps = [late - soon for (soon, _, _), (late, _, _) in zip(host.polls, host.polls[1:], strict=False)]
    assert gaps[0] == pytest.approx(0.1, abs=0.01)
    assert max(gaps) == pytest.approx(2.0, abs=0.01)
    assert len(host.polls) < 25


async def test_warnings_are_a_good_end() -> None:
    assert (await tasks_on(TaskHost("WARNINGS: 3")).wait(Upid.parse(UPID))).warnings == 3


async def test_a_known_text_is_its_own_error() -> None:
    with pytest.raises(DigestMismatch) as caught:
        await tasks_on(TaskHost("checksum mismatch (file change by other user?)")).wait(Upid.parse(UPID))
    assert caught.value.upid == UPID


async def test_an_unknown_text_is_told() -> None:
    with pytest.raises(TaskFailed, match="migration aborted"):
        await tasks_on(TaskHost("migration aborted")).wait(Upid.parse(UPID))


async def test_still_running_when_the_wait_ends() -> None:
    with pytest.raises(TaskTimeout, match="still running after 5 s") as caught:
        await tasks_on(TaskHost(runs_s=60)).wait(Upid.parse(UPID), timeout_s=5)
    assert caught.value.upid == UPID


@pytest.mark.parametrize("end", [None, "", "unexpected status"])
async def test_stopped_without_an_end_is_unknown(end: str | None) -> None:
    with pytest.raises(TaskUnknown, match="without an exit status"):
        await tasks_on(TaskHost(end)).wait(Upid.parse(UPID))


async def test_no_such_task_is_unknown() -> None:
    trouble = answer_of(400, "Parameter verification failed.", {"upid": "no such task"})
    with pytest.raises(TaskUnknown, match="no such task"):
        await tasks_on(TaskHost(trouble=trouble)).wait(Upid.parse(UPID))


async def test_a_dark_host_is_unknown_after_the_wait() -> None:
    host = TaskHost(trouble=answer_of(595, "No route to host"))
    with pytest.raises(TaskUnknown, match="No route to host"):
        await tasks_on(host).wait(Upid.parse(UPID), timeout_s=5)
    assert len(host.polls) > 3


async def test_what_a_writes_answer_names() -> None:
    call = Call("r1", "POST", "/x")
    assert started(None, call) is None
    assert started(UPID, call) == Upid.parse(UPID)
    for answer in ("local:9999/x.raw", "", 5, True, 1.5):
        with pytest.raises(PveUnknownOutcome, match="names no task"):
            started(answer, call)


async def test_what_runs_on_a_host() -> None:
    class Listing(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            assert request.url.path == "/api2/json/nodes/pve2/tasks"
            assert request.url.params["source"] == "active"
            ended = UPID.replace("00000345", "00000346")
            return httpx.Response(200, json={"data": [{"upid": UPID}, {"upid": ended, "endtime": 1796066843}]})

    tasks = Tasks(client_on(Listing()), SystemClock())
    assert await tasks.running("pve2") == [Upid.parse(UPID)]
