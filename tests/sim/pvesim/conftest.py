"""The measured world as a fixture."""

import pytest

from tests.sim.pvesim.measured import Measured


@pytest.fixture
def cluster() -> Measured:
    return Measured()
