"""A volume's life with a real kernel: format once, mount, publish, grow, unmount, and come back with its data."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from appkit.errors import AlreadyExists, Corrupt, FailedPrecondition, NotFound, Unavailable
from csi_node.host.signatures import UNFINISHED_LABEL
from tests.fakes.node_calls import MIB
from tests.host.machine import Machine


def _run(*argv: object) -> str:
    """A tool of the filesystem, run from outside."""
    return subprocess.run([str(arg) for arg in argv], check=True, capture_output=True, text=True).stdout


def _write_at(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.parametrize(("fs_type", "size"), [("ext4", 64), ("xfs", 320)])
async def test_whole_life(machine: Machine, fs_type: str, size: int) -> None:
    volume = machine.volume("pvc-1", size)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type, context={"ssd": "true"})
    target = await machine.publish(volume)
    (target / "hello").write_text("world")
    usage, inodes = await machine.stats(volume, target)
    assert size * MIB * 0.7 < usage.total <= size * MIB
    assert inodes.total > 0
    with pytest.raises(FailedPrecondition, match="still published"):
        await machine.unstage(volume)
    await machine.unpublish(volume)
    assert not target.exists()
    await machine.unstage(volume)
    assert machine.mounted() == []
    assert not machine.staging(volume).exists()
    machine.unplug(disk)

    machine.plug(volume, "sdc")
    machine.runner.lines.clear()
    await machine.stage(volume, fs_type)
    assert machine.runner.programs() == ["blkid", *(["e2fsck"] if fs_type == "ext4" else []), "mount"]
    target = await machine.publish(volume)
    assert (target / "hello").read_text() == "world"


async def test_command_lines(machine: Machine) -> None:
    ext4, xfs = machine.volume("pvc-e", 64), machine.volume("pvc-x", 320)
    machine.plug(ext4, "sdb")
    machine.plug(xfs, "sdc")
    dev = machine.root / "dev"
    tags = ["-s", "TYPE", "-s", "PTTYPE", "-s", "USAGE", "-s", "LABEL"]

    await machine.stage(ext4, flags=("nosuid",), context={"ssd": "true", "blockSize": "4096", "inodeSize": "512"})
    await machine.publish(ext4, readonly=True)
    assert machine.runner.lines == [
        ["blkid", "-p", "-o", "export", *tags, f"{dev}/sdb"],
        ["wipefs", "--noheadings", "--output", "TYPE", f"{dev}/sdb"],
        ["mkfs.ext4", "-b", "4096", "-I", "512", "-F", "-m0", "-L", UNFINISHED_LABEL, f"{dev}/sdb"],
        ["tune2fs", "-L", "", f"{dev}/sdb"],
        ["mount", "-t", "ext4", "-o", "nosuid,noatime", f"{dev}/sdb", f"{machine.staging(ext4)}"],
        ["mount", "--bind", f"{machine.staging(ext4)}", f"{machine.target(ext4)}"],
        ["mount", "-o", "remount,bind,ro,nosuid,noatime", f"{machine.target(ext4)}"],
    ]
    machine.runner.lines.clear()
    await machine.stage(xfs, "xfs", context={"blockSize": "2048", "inodeSize": "1024"})
    await machine.unstage(xfs)
    assert machine.runner.lines == [
        ["blkid", "-p", "-o", "export", *tags, f"{dev}/sdc"],
        ["wipefs", "--noheadings", "--output", "TYPE", f"{dev}/sdc"],
        ["mkfs.xfs", "-b", "size=2048", "-i", "size=1024", f"{dev}/sdc"],
        ["mount", "-t", "xfs", "-o", "nouuid", f"{dev}/sdc", f"{machine.staging(xfs)}"],
        ["sync", "--file-system", f"{machine.staging(xfs)}"],
        ["umount", f"{machine.staging(xfs)}"],
    ]


async def test_xfs_grows_while_a_pod_uses_it(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 320)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    target = await machine.publish(volume)
    with pytest.raises(Unavailable, match="smaller than the"):
        await machine.expand(volume, target, 640)
    machine.grow(disk, 640)
    assert await machine.expand(volume, target, 640) == 640 * MIB
    assert os.statvfs(target).f_blocks * os.statvfs(target).f_frsize > 500 * MIB
    assert await machine.expand(volume, target, 640) == 640 * MIB, "growing twice is fine"


async def test_xfs_grows_through_the_staging_path_for_a_reader(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 320)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    target = await machine.publish(volume, readonly=True)
    machine.grow(disk, 640)
    await machine.expand(volume, target, 640)
    assert os.statvfs(target).f_blocks * os.statvfs(target).f_frsize > 500 * MIB


@pytest.mark.parametrize(("fs_type", "size"), [("ext4", 64), ("xfs", 320)])
async def test_grown_while_away_is_grown_at_stage(machine: Machine, fs_type: str, size: int) -> None:
    """A mounted ext4 is grown where the kernel lets us; else (no CAP_SYS_RESOURCE, as in sandboxes) before mounting."""
    volume = machine.volume("pvc-1", size)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type)
    (machine.staging(volume) / "hello").write_text("world")
    await machine.unstage(volume)
    machine.grow(disk, size * 2)
    machine.runner.lines.clear()
    await machine.stage(volume, fs_type)
    found = os.statvfs(machine.staging(volume))
    assert found.f_blocks * found.f_frsize > size * MIB * 1.5
    assert (machine.staging(volume) / "hello").read_text() == "world"
    machine.runner.lines.clear()
    await machine.stage(volume, fs_type)
    # xfs writes a new size to its superblock later; growing it once more is nothing to it.
    assert machine.runner.programs() in ([], ["xfs_growfs"])


@pytest.mark.parametrize("extra_mib", [1, 4, 15, 17, 33])
async def test_xfs_grows_by_a_little_or_is_left_alone(machine: Machine, extra_mib: int) -> None:
    volume = machine.volume("pvc-1", 320)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    machine.grow(disk, 320 + extra_mib)
    assert await machine.expand(volume, machine.staging(volume), 320 + extra_mib) == (320 + extra_mib) * MIB
    await machine.stage(volume, "xfs")


async def test_stage_is_idempotent(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.runner.lines.clear()
    await machine.stage(volume)
    await machine.stage(volume, "")
    assert machine.runner.programs() == []
    assert len(machine.mounted()) == 1
    with pytest.raises(AlreadyExists, match="already staged as ext4, xfs was asked for"):
        await machine.stage(volume, "xfs")
    with pytest.raises(AlreadyExists, match="read-only was asked for"):
        await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")


async def test_another_volume_at_the_staging_path_is_refused(machine: Machine) -> None:
    one, two = machine.volume("pvc-1", 64), machine.volume("pvc-2", 64)
    machine.plug(one, "sdb")
    machine.plug(two, "sdc")
    await machine.stage(one)
    request = machine.stage_request(two)
    request.staging_target_path = str(machine.staging(one))
    with pytest.raises(FailedPrecondition, match="has another device mounted"):
        await machine.node.NodeStageVolume(request, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fs_type", "size"), [("ext4", 64), ("xfs", 320)])
async def test_stale_mount_of_a_vanished_disk_is_repaired(machine: Machine, fs_type: str, size: int) -> None:
    """The VM's disk was detached under the mount and attached again: another kernel name, another number."""
    volume = machine.volume("pvc-1", size)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type)
    target = await machine.publish(volume)
    (target / "hello").write_text("world")
    os.sync()
    machine.unplug(disk)
    with pytest.raises(FailedPrecondition, match="must be staged again"):
        await machine.publish(volume, "pod-2")
    machine.plug(volume, "sdd")
    await machine.stage(volume, fs_type)
    staged = machine.staging(volume)
    assert (staged / "hello").read_text() == "world"
    await machine.publish(volume)
    assert target.stat().st_dev == staged.stat().st_dev, "the Pod's path shows the new disk too"
    await machine.unpublish(volume)
    await machine.unstage(volume)
    assert machine.mounted() == []


async def test_disk_that_is_not_there(machine: Machine) -> None:
    other, volume = machine.volume("pvc-1", 64), machine.volume("pvc-2", 64)
    machine.plug(other, "sdb")
    with pytest.raises(Unavailable) as caught:
        await machine.stage(volume)
    assert f"no disk with WWN {volume.wwn}" in str(caught.value)
    assert f"sdb (7:{machine.plugged[0].loop.number}, WWN {other.wwn}, {64 * MIB} bytes)" in str(caught.value)
    assert machine.runner.lines == []


async def test_disk_that_arrives_late(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    staging = asyncio.create_task(machine.stage(volume))
    await asyncio.sleep(0.1)
    machine.plug(volume, "sdb")
    await staging
    assert machine.mounted() == [machine.staging(volume)]


async def test_device_node_of_another_disk_is_not_touched(machine: Machine) -> None:
    one, two = machine.volume("pvc-1", 64), machine.volume("pvc-2", 64)
    disk = machine.plug(one, "sdb")
    machine.plug(two, "sdc")
    node = machine.root / "dev" / "sdb"
    node.unlink()
    os.mknod(node, 0o60600, machine.plugged[1].loop.device)
    with pytest.raises(Unavailable, match="is not its device node"):
        await machine.stage(one)
    assert machine.runner.lines == []
    assert disk.loop.number != machine.plugged[1].loop.number


FOREIGN = {
    "partition table": (510, b"\x55\xaa", 446, b"\x80\x01\x01\x00\x83\xfe\xff\xff\x00\x08\x00\x00\x00\x10\x00\x00"),
    "LVM2_member": (512, b"LABELONE\x01\0\0\0\0\0\0\0" + bytes.fromhex("00000000") + b"\x20\0\0\0LVM2 001", 0, b""),
    "crypto_LUKS": (0, b"LUKS\xba\xbe\x00\x01", 0, b""),
    "no known format": (100, b"somebody's data", 0, b""),
}


@pytest.mark.parametrize("what", ["partition table", "crypto_LUKS", "no known format"])
async def test_foreign_content_is_never_formatted(machine: Machine, what: str) -> None:
    volume = machine.volume("pvc-1", 64)
    first, mark, second, more = FOREIGN[what]
    _write_at(volume.file, first, mark)
    _write_at(volume.file, second, more)
    before = volume.file.read_bytes()
    machine.plug(volume, "sdb")
    with pytest.raises(Corrupt, match=what):
        await machine.stage(volume)
    assert machine.runner.programs() == ["blkid"]
    assert volume.file.read_bytes() == before


async def test_ambivalent_content_is_never_formatted(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 320)
    _run("mkfs.xfs", volume.file)
    other = machine.root / "other"
    other.write_bytes(b"")
    os.truncate(other, 320 * MIB)
    _run("mkfs.ext4", "-F", other)
    _write_at(volume.file, 1024, other.read_bytes()[1024:2048])
    machine.plug(volume, "sdb")
    with pytest.raises((Corrupt, FailedPrecondition)):
        await machine.stage(volume)
    assert machine.runner.programs() == ["blkid"]


async def test_other_filesystem_than_asked_for_is_kept(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 320)
    machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    await machine.unstage(volume)
    with pytest.raises(FailedPrecondition, match="holds xfs, but ext4 was asked for"):
        await machine.stage(volume, "ext4")
    await machine.stage(volume, "")


async def test_garbage_of_a_thick_volume_is_formatted(machine: Machine) -> None:
    """As lvcreate leaves it: the first 4 KiB zero, behind them what an older volume had."""
    volume = machine.volume("pvc-1", 64)
    with volume.file.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(64 * MIB - 4096))
    machine.plug(volume, "sdb")
    await machine.stage(volume)


@pytest.mark.parametrize("size", [64, 1024])
async def test_killed_mkfs_ext4_is_made_again(machine: Machine, size: int) -> None:
    """Its superblock comes last, for 1 KiB blocks (small volumes) as for 4 KiB ones."""
    volume = machine.volume("pvc-1", size)
    _run("mkfs.ext4", "-F", volume.file)
    _write_at(volume.file, 1024, bytes(1024))
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    assert "mkfs.ext4" in machine.runner.programs()


async def test_ext4_of_a_mkfs_that_did_not_end_is_made_again(machine: Machine) -> None:
    """After a power cut: the superblock is there, with our mark, and nothing else is known to be."""
    volume = machine.volume("pvc-1", 64)
    _run("mkfs.ext4", "-F", "-L", UNFINISHED_LABEL, volume.file)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    assert "mkfs.ext4" in machine.runner.programs()
    assert _run("e2label", machine.root / "dev/sdb").strip() == ""


async def test_xfs_of_a_mkfs_that_did_not_end_is_made_again(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 320)
    _run("mkfs.xfs", "-m", "crc=0", volume.file)
    _write_at(volume.file, 126, b"\x01")
    machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    assert ["mkfs.xfs", "-f", f"{machine.root}/dev/sdb"] in machine.runner.lines


async def test_errors_that_fsck_repairs_and_errors_it_does_not(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    (machine.staging(volume) / "hello").write_text("world")
    await machine.unstage(volume)
    _run("debugfs", "-w", "-R", "set_super_value free_blocks_count 7", machine.root / "dev/sdb")
    await machine.stage(volume)
    assert (machine.staging(volume) / "hello").read_text() == "world"
    await machine.unstage(volume)
    _run("debugfs", "-w", "-R", "set_super_value state 2", machine.root / "dev/sdb")
    _run("debugfs", "-w", "-R", "clri <2>", machine.root / "dev/sdb")
    with pytest.raises(Corrupt, match="must be repaired by hand"):
        await machine.stage(volume)
    assert machine.mounted() == []
    machine.unplug(disk)


async def test_reader_only(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    with pytest.raises(FailedPrecondition, match="is empty and was asked for read-only"):
        await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.runner.lines.clear()
    await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")
    assert machine.runner.programs() == ["blkid", "mount"]
    target = await machine.publish(volume, mode="SINGLE_NODE_READER_ONLY")
    with pytest.raises(OSError, match="Read-only"):
        (target / "hello").write_text("world")
    with pytest.raises(FailedPrecondition, match="mounted read-only"):
        await machine.expand(volume, target, 64)


async def test_stats_and_expand_of_no_volume(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    folder = machine.root / "kubelet/pods/plain"
    folder.mkdir()
    for path in (Path("some/path"), machine.root / "kubelet/pods/nothing", folder):
        with pytest.raises(NotFound):
            await machine.stats(volume, path)
        with pytest.raises(NotFound):
            await machine.expand(volume, path, 64)
