"""The bench of tests/kube, whose fixtures these tests use."""

from tests.kube.conftest import bench, pytest_configure, pytest_runtest_makereport, space

__all__ = ["bench", "pytest_configure", "pytest_runtest_makereport", "space"]
