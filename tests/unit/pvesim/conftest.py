"""A world of three hosts and callers of it, for tests of the simulator's rules."""

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts


@pytest.fixture
def world() -> World:
    return three_hosts()


@pytest.fixture
def csi(world: World) -> Direct:
    return Direct(world, CSI_TOKEN, CSI_SECRET)


@pytest.fixture
def ccm(world: World) -> Direct:
    return Direct(world, CCM_TOKEN, CCM_SECRET)


@pytest.fixture
def root(world: World) -> Direct:
    return Direct(world, ROOT_TOKEN, ROOT_SECRET)
