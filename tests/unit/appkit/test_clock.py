import asyncio
from datetime import UTC, timedelta

import pytest

from appkit.clock import SystemClock


async def test_wall_clock_is_aware_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


@pytest.mark.looptime
async def test_a_loop_with_virtual_time_makes_waiting_free() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(3600)
    assert clock.monotonic() - before == pytest.approx(3600)
    assert asyncio.get_running_loop().time() == clock.monotonic()
    assert timedelta(seconds=clock.monotonic() - before) == timedelta(hours=1)
