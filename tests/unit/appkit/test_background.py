import asyncio
import logging

import pytest

from appkit.background import Background, BackgroundFailed

pytestmark = pytest.mark.looptime


async def for_ever() -> None:
    await asyncio.sleep(1e9)


async def fails_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise KeyError("bug")


async def test_stop_ends_it_and_cancels_the_tasks() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(5, stop.set)
    async with Background() as background:
        task = background.start("poller", for_ever())
        await background.run_until(stop)
        assert task.get_name() == "poller"
    assert task.cancelled()


async def test_an_error_in_one_ends_all_and_is_told_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async with Background() as background:
        other = background.start("other", for_ever())
        background.start("inventory cluster-1", fails_after(3))
        with pytest.raises(BackgroundFailed, match="'inventory cluster-1' ended unexpectedly") as failed:
            await background.run_until(asyncio.Event())
    assert isinstance(failed.value.__cause__, KeyError)
    assert other.cancelled()
    (record,) = caplog.records
    assert (record.levelno, record.__dict__["task"]) == (logging.CRITICAL, "inventory cluster-1")
    assert record.exc_info


async def test_a_plain_return_is_as_unexpected(caplog: pytest.LogCaptureFixture) -> None:
    async with Background() as background:
        background.start("sleeper", asyncio.sleep(1))
        with pytest.raises(BackgroundFailed, match="'sleeper'"):
            await background.run_until(asyncio.Event())


async def test_a_failure_before_anybody_waits_is_not_lost() -> None:
    async with Background() as background:
        background.start("early", fails_after(0))
        await asyncio.sleep(1)
        with pytest.raises(BackgroundFailed):
            await background.run_until(asyncio.Event())


async def test_an_error_while_stopping_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        try:
            await for_ever()
        finally:
            raise ValueError("while stopping")

    async with Background() as background:
        background.start("stubborn", stubborn())
        await asyncio.sleep(1)
    assert [record.getMessage() for record in caplog.records] == ["background task failed while stopping"]
