"""A second operation on the same thing is refused while the first one runs."""

import asyncio

import pytest

from appkit.errors import Pending
from csikit.inflight import InFlight


def test_the_second_is_refused_and_told_what_runs() -> None:
    inflight = InFlight()
    with inflight.hold("pvc-1", "CreateVolume"):
        with pytest.raises(Pending, match=r"CreateVolume on 'pvc-1' is still running; repeat the call later"):
            inflight.hold("pvc-1", "DeleteVolume").__enter__()
        assert inflight.running() == {"pvc-1": "CreateVolume"}


def test_a_refused_one_does_not_release_the_first() -> None:
    inflight = InFlight()
    with inflight.hold("pvc-1"):
        for _ in range(2):
            with pytest.raises(Pending), inflight.hold("pvc-1"):
                pytest.fail("both ran")


def test_other_keys_run_beside_it() -> None:
    inflight = InFlight()
    with inflight.hold("vm-9999-data-1"), inflight.hold("vm-9999-data-10"), inflight.hold(""):
        assert len(inflight.running()) == 3
    assert inflight.running() == {}


def test_an_error_releases_and_passes() -> None:
    inflight = InFlight()
    with pytest.raises(ZeroDivisionError), inflight.hold("pvc-1"):
        raise ZeroDivisionError
    with inflight.hold("pvc-1"):
        pass


async def test_cancellation_releases() -> None:
    inflight = InFlight()

    async def work() -> None:
        with inflight.hold("pvc-1", "ControllerPublishVolume"):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    assert inflight.running() == {"pvc-1": "ControllerPublishVolume"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert inflight.running() == {}
