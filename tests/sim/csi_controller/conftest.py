"""The usual scene, and a word for refused calls."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc
import pytest

from tests.sim.csi_controller.scene import Scene, open_scene


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Three hosts, six workers with Nodes, a warm controller."""
    async with open_scene() as opened:
        yield opened


@contextmanager
def refused(code: grpc.StatusCode, *words: str) -> Iterator[None]:
    """The call inside must end with this code, and its text must hold the words."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    text = caught.value.details() or ""
    assert caught.value.code() is code, text
    for word in words:
        assert word in text, text
