"""One machine per test, in a mount namespace of the test process."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.loops import enter_private_mounts
from tests.host.machine import Machine

TOOLS = (
    "blkid",
    "e2fsck",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "resize2fs",
    "sync",
    "tune2fs",
    "umount",
    "wipefs",
    "xfs_growfs",
)


def _missing() -> str:
    if os.geteuid() != 0:
        return "not root"
    if not Path("/dev/loop-control").exists():
        return "no loop devices"
    lacking = [tool for tool in TOOLS if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


@pytest.fixture(scope="session")
def _private_mounts() -> None:
    if reason := _missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"tests/host cannot run here: {reason}")
        pytest.skip(f"tests/host cannot run here: {reason}")
    enter_private_mounts()


@pytest.fixture
def machine(_private_mounts: None) -> Iterator[Machine]:
    machine = Machine(Path(tempfile.mkdtemp(prefix="pvecloud-host-")))
    yield machine
    for path in reversed(machine.mounted()):
        subprocess.run(["umount", path], check=True)
    for plugged in list(machine.plugged):
        machine.unplug(plugged)
    shutil.rmtree(machine.root)
