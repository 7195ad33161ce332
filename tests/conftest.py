"""What every test of the repository relies on."""

import asyncio

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the main thread loop-less from the start, as Python 3.14 does.

    looptime asks for "the current loop" around synchronous tests too; until one was set (even to None), Python up to
    3.13 makes a new one at that question, which nobody closes.
    """
    asyncio.set_event_loop(None)
