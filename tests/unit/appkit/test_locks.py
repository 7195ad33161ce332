import asyncio

import pytest

from appkit.locks import KeyedLock

pytestmark = pytest.mark.looptime


async def test_same_key_waits_in_order_and_other_keys_do_not() -> None:
    locks, order = KeyedLock(), list[str]()

    async def work(key: str, name: str, seconds: float) -> None:
        async with locks.hold(key):
            order.append(f"{name}+")
            await asyncio.sleep(seconds)
            order.append(f"{name}-")

    await asyncio.gather(work("a", "a1", 2), work("a", "a2", 1), work("b", "b1", 1))
    assert order == ["a1+", "b1+", "b1-", "a1-", "a2+", "a2-"]
    assert len(locks) == 0


async def test_an_error_or_a_cancellation_frees_the_key() -> None:
    locks = KeyedLock()

    async def hold_for_ever() -> None:
        async with locks.hold("k"):
            await asyncio.sleep(1e6)

    holder, waiter = asyncio.create_task(hold_for_ever()), asyncio.create_task(hold_for_ever())
    await asyncio.sleep(1)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    with pytest.raises(RuntimeError):
        async with locks.hold("k"):
            raise RuntimeError
    assert len(locks) == 0
