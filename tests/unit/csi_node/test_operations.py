import asyncio

import pytest

from appkit.errors import Pending, Unavailable
from csi_node.operations import Operations

pytestmark = pytest.mark.looptime


async def test_second_call_on_a_volume_is_refused_by_name_and_others_are_not() -> None:
    operations = Operations()
    first = asyncio.create_task(operations.run("vol", "NodeStageVolume", lambda: asyncio.sleep(10, "staged")))
    await asyncio.sleep(1)
    with pytest.raises(Pending, match="NodeStageVolume"):
        await operations.run("vol", "NodeUnstageVolume", lambda: asyncio.sleep(0))
    assert await operations.run("other", "NodeStageVolume", lambda: asyncio.sleep(0, "too")) == "too"
    assert await first == "staged"


async def test_error_reaches_the_caller_and_frees_the_volume() -> None:
    async def fail() -> None:
        raise ValueError("no")

    operations = Operations()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await operations.run("vol", "NodeStageVolume", fail)


async def test_work_outlives_its_caller_and_says_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        await asyncio.sleep(10)
        raise ValueError("no")

    caplog.set_level("INFO")
    operations = Operations()
    for work in (lambda: asyncio.sleep(10), fail):
        caller = asyncio.create_task(operations.run("vol", "NodeStageVolume", work))
        await asyncio.sleep(1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        with pytest.raises(Pending):
            await operations.run("vol", "NodeStageVolume", lambda: asyncio.sleep(0))
        await asyncio.sleep(20)
    assert "NodeStageVolume vol is done, after its caller had gone" in caplog.text
    assert "NodeStageVolume vol failed after its caller had gone: no" in caplog.text


@pytest.mark.parametrize(("drain_s", "finished"), [(20.0, True), (2.0, False)])
async def test_close_waits_and_then_stops(drain_s: float, *, finished: bool) -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(10)
        done.append(True)

    operations = Operations()
    call = asyncio.create_task(operations.run("vol", "NodeStageVolume", work))
    await asyncio.sleep(1)
    await operations.aclose(drain_s)
    assert bool(done) is finished
    await asyncio.gather(call, return_exceptions=True)
    await operations.aclose(0)


async def test_caller_of_what_is_stopped_is_told_to_call_again() -> None:
    operations = Operations()
    call = asyncio.create_task(operations.run("vol", "NodeStageVolume", lambda: asyncio.sleep(100)))
    await asyncio.sleep(1)
    await operations.aclose(2)
    with pytest.raises(Unavailable, match="NodeStageVolume was stopped because this service stops"):
        await call


async def test_disk_is_held_with_the_volume() -> None:
    operations = Operations()
    first = asyncio.create_task(operations.run("one", "NodeStageVolume", lambda: asyncio.sleep(10), disk="0x5"))
    await asyncio.sleep(1)
    with pytest.raises(Pending, match="'0x5' is still running"):
        await operations.run("two", "NodeStageVolume", lambda: asyncio.sleep(0), disk="0x5")
    await first
    await operations.run("two", "NodeStageVolume", lambda: asyncio.sleep(0), disk="0x5")
