from collections.abc import AsyncIterator

import pytest

from kubekit.sessions import KubeSession, KubeSettings, connect
from tests.kubesim import KubeSim


@pytest.fixture
async def sim() -> AsyncIterator[KubeSim]:
    sim = KubeSim()
    await sim.start()
    yield sim
    await sim.aclose()


@pytest.fixture
async def session(sim: KubeSim) -> AsyncIterator[KubeSession]:
    session = await connect(KubeSettings(server=sim.url, timeout_s=2))
    yield session
    await session.aclose()
