from pathlib import Path

import pytest

from appkit.errors import FailedPrecondition, Unavailable
from csi_node.host.kernel import DeviceNumber
from csi_node.host.mounts import MAX_STACKED, Mounts, containing, parse_mountinfo, real_path
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.runner import ROOT_MOUNT

TABLE = (
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
    "40 27 8:16 / /var/lib/kubelet/a\\040b\\011c\\134d ro,nosuid shared:7 master:2 - ext4 /dev/sdb rw,errors=continue\n"
    "41 27 8:32 /sub\\040dir /mnt rw propagate_from:2 unbindable - xfs /dev/sd\\043c ro\n"
    "garbage\n"
    "42 27 0:44 / /mnt rw - fuse.x \n"
    "43 27 0:45 / /mnt/deep rw - tmpfs tmpfs\n"
)


def test_parse() -> None:
    _, root, spaced, sub = parse_mountinfo(TABLE)
    assert root.path == Path("/")
    assert root.propagation == ("shared:1",)
    assert (spaced.number, spaced.path) == (DeviceNumber(8, 16), Path("/var/lib/kubelet/a b\tc\\d"))
    assert (spaced.options, spaced.propagation, spaced.fs_type) == (("ro", "nosuid"), ("shared:7", "master:2"), "ext4")
    assert (spaced.super_options, spaced.read_only) == (("rw", "errors=continue"), True)
    assert (sub.root, sub.source, sub.read_only) == ("/sub dir", "/dev/sd#c", True)
    assert root.read_only is False


def test_parse_of_this_machines_own_table() -> None:
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    assert any(mount.path == Path("/") for mount in mounts)
    assert any(mount.fs_type == "proc" for mount in mounts)


def test_containing() -> None:
    mounts = parse_mountinfo(TABLE)
    found = containing(mounts, Path("/mnt/x"))
    assert found is not None
    assert found.source == "/dev/sd#c"
    root = containing(mounts, Path("/mntx"))
    assert root is not None
    assert root.path == Path("/")
    assert containing([], Path("/x")) is None


def test_real_path_resolves_all_but_the_last_part(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "last").symlink_to("/nowhere")
    assert real_path(tmp_path / "link" / "last") == tmp_path / "real" / "last"


@pytest.fixture
def mounts(machine: FakeMachine) -> Mounts:
    return Mounts(machine.host, machine.host)


async def test_unmount_of_what_does_not_come_off(machine: FakeMachine, mounts: Mounts) -> None:
    table = machine.root / "state" / "mountinfo"
    path = machine.root / "x"
    path.mkdir()
    line = f"9 1 8:16 / {path} rw - ext4 /dev/sdb rw,id=x\n"
    table.write_text(ROOT_MOUNT + "".join(line.replace("9 ", f"{number} ", 1) for number in range(50, 70)))
    with pytest.raises(Unavailable, match=f"still mounted at {path} after {MAX_STACKED} unmounts"):
        await mounts.unmount(path)
    assert len(mounts.of_device(DeviceNumber(8, 16))) == 4
    assert await mounts.unmount(path) == 4
    assert await mounts.unmount(path) == 0
    table.write_text(ROOT_MOUNT + line)
    machine.host.busy.add(path)
    with pytest.raises(FailedPrecondition, match=f"{path} is still in use"):
        await mounts.unmount(path)


async def test_mount_that_is_not_seen_is_not_believed(machine: FakeMachine, mounts: Mounts) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    path = machine.staging(volume)
    await mounts.unmount(path)
    path.mkdir(parents=True, exist_ok=True)

    class Blind:
        """Says that all is well and does nothing, as in another mount namespace."""

        async def run(self, argv, **kwargs):  # type: ignore[no-untyped-def]
            return None

    with pytest.raises(Unavailable, match="shows nothing at"):
        await Mounts(Blind(), machine.host).mount(machine.root / "dev/sdb", path, "ext4", [])


@pytest.mark.parametrize("odd", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\udcff"])
def test_characters_that_end_no_line(odd: str) -> None:
    [mount] = parse_mountinfo(f"40 27 8:16 / /a{odd}b rw - ext4 /dev/sdb rw\n")
    assert mount.path == Path(f"/a{odd}b")


def test_lines_without_numbers_are_left_out() -> None:
    assert parse_mountinfo("x 27 8:16 / /a rw - ext4 /dev/sdb rw\n1 2 8 / /a rw - ext4 /dev/sdb rw\n") == []
