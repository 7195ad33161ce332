"""Fixtures of the Kubernetes bench: the whole bench once a session, a fresh namespace and a clean world for each test.

Every test ends with the proof that nothing of it is left: in Kubernetes, in pvesim, on the host. One that leaves
something fails, and the next one gets a new world.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube import place
from tests.kube.bench import Bench
from tests.kube.needs import missing
from tests.kube.programs import BenchError
from tests.kube.space import Space
from tests.kube.toolchain import BENCH, toolchain

_RAN = pytest.StashKey[bool]()
LOGS = Path(__file__).parents[2] / "build" / "kube-logs"


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: with all fixtures closed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def say(text: str) -> None:
    """Where it is seen although pytest captures output: only when something fails."""
    sys.stderr.write(f"bench: {text}\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes which tests came to an end, whatever it was."""
    if call.when == "call":
        item.stash[_RAN] = True


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """Running, with initialised Nodes and the registered driver; skipped where the machine cannot (in CI: failed)."""
    lacking = missing(BENCH)
    if lacking:
        text = "the Kubernetes bench cannot run here: " + "; ".join(lacking)
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    tools = toolchain()
    tools.build(BENCH)
    made = Bench(place.claim(), tools, say)
    try:
        made.start()
        yield made
    finally:
        made.save_logs(LOGS)
        left = made.close()
    assert not left, left


@pytest.fixture
def space(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A fresh namespace on a clean bench."""
    made = Space(bench, request.node.name)
    made.make()
    yield made
    if not request.node.stash.get(_RAN, False):
        return  # Ctrl-C: the bench takes everything with it
    try:
        made.remove()
        made.check_clean()
    except (AssertionError, BenchError):
        made.abandon()
        raise
