"""What every test of the repository relies on."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the main thread loop-less from the start, as Python 3.14 does.

    looptime asks for "the current loop" around synchronous tests too; until one was set (even to None), Python up to
    3.13 makes a new one at that question, which nobody closes.
    """
    asyncio.set_event_loop(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what a test printed or logged sendable: pytest-xdist ends at once on text that is not UTF-8."""
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    return report


def _sendable(text: Any) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()
