"""Waiting for what another task or process does, with a limit."""

import asyncio
from collections.abc import Callable

WAIT_S = 10.0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for knows nothing of events
            await asyncio.sleep(0.005)
