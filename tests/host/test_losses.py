"""Ways to lose a volume's data, or to believe in a success that was none, each on a real kernel."""

import os
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appkit.errors import AlreadyExists, Corrupt, FailedPrecondition, Unavailable
from csi_node.host.kernel import LinuxKernel
from csi_node.host.mounts import Mounts
from csi_node.host.signatures import UNFINISHED_LABEL
from tests.fakes.node_calls import MIB, Volume
from tests.host.machine import Machine


def _run(*argv: object) -> str:
    return subprocess.run([str(arg) for arg in argv], check=True, capture_output=True, text=True).stdout


def _mounts(machine: Machine) -> Mounts:
    return Mounts(machine.runner, LinuxKernel())


def _write_at(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def _write_backup_gpt(file: Path) -> None:
    """The second header and entries of a partition table, at the end of the disk."""
    sectors = file.stat().st_size // 512
    entry = os.urandom(32) + struct.pack("<QQQ", 2048, sectors - 100, 0)
    entries = entry.ljust(128 * 128, b"\0")
    places = struct.pack("<QQQQ16sQII", sectors - 1, 1, 34, sectors - 34, os.urandom(16), sectors - 33, 128, 128)
    body = places + struct.pack("<I", zlib.crc32(entries))
    head = struct.pack("<8sII", b"EFI PART", 0x10000, 92)
    checksum = zlib.crc32(head + bytes(8) + body)
    _write_at(file, (sectors - 33) * 512, entries)
    _write_at(file, (sectors - 1) * 512, head + struct.pack("<II", checksum, 0) + body)


@contextmanager
def _other_namespace(path: Path) -> Iterator[None]:
    """A container that was given all of the host's mounts, hears of no unmount, and has something open under `path`.

    (Without the latter, the removal of the mount point takes the mount off there too.)
    """
    script = 'cd "$0" && echo ready && read line'
    argv: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, path]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        process.communicate(b"\n")


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
async def test_partition_table_whose_first_copy_was_wiped_is_not_formatted(machine: Machine, fs_type: str) -> None:
    """`dd bs=1M count=1` over the wrong disk: blkid finds nothing any more, the partitions are all there."""
    volume = machine.volume("pvc-1", 320)
    _write_backup_gpt(volume.file)
    machine.plug(volume, "sdb")
    with pytest.raises(Corrupt, match="remains of gpt"):
        await machine.stage(volume, fs_type)
    assert not [line for line in machine.runner.lines if line[0].startswith("mkfs")]


async def test_mark_of_an_unfinished_mkfs_on_a_filesystem_in_use(machine: Machine) -> None:
    """The process died before it took the mark off; then the Go driver mounted the volume and a Pod wrote to it."""
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    device, elsewhere = machine.root / "dev/sdb", machine.root / "elsewhere"
    elsewhere.mkdir()
    _run("mkfs.ext4", "-q", "-F", "-L", UNFINISHED_LABEL, device)
    _run("mount", device, elsewhere)
    (elsewhere / "hello").write_text("world")
    _run("umount", elsewhere)
    await machine.stage(volume)
    assert (machine.staging(volume) / "hello").read_text() == "world"


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
async def test_mount_that_another_namespace_holds(machine: Machine, fs_type: str) -> None:
    """After our unmount the filesystem lives on there: nothing is flushed by the unmount, and no fsck is possible."""
    volume = machine.volume("pvc-1", 320)
    machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type)
    with _other_namespace(machine.staging(volume)):
        (machine.staging(volume) / "hello").write_text("world")
        await machine.unstage(volume)
        assert machine.mounted() == []
        copy = Volume("cluster-1/pve1/local-lvm/vm-9999-copy", volume.file.with_suffix(".now"))
        machine.plugged[0].loop.flush()
        _run("cp", "--sparse=always", volume.file, copy.file)
        await machine.stage(volume, fs_type)
        assert (machine.staging(volume) / "hello").read_text() == "world"
        await machine.unstage(volume)
    machine.plug(copy, "sdc")
    await machine.stage(copy, fs_type)
    assert (machine.staging(copy) / "hello").read_text() == "world", "what was on the disk right after the unstage"


async def test_disk_is_held_open_while_tools_work_on_its_name(machine: Machine) -> None:
    """So that no other disk can come under that name between our last look and the tool's open."""
    volume = machine.volume("pvc-1", 64)
    disk = machine.plug(volume, "sdb")
    held: dict[str, bool] = {}

    def is_held() -> bool:
        for entry in Path("/proc/self/fd").iterdir():
            try:
                if entry.stat().st_rdev == disk.loop.device and entry.readlink() == machine.root / "dev/sdb":
                    return True
            except OSError:
                continue
        return False

    machine.runner.before = lambda argv: held.update({argv[0]: is_held()})
    await machine.stage(volume)
    await machine.unstage(volume)
    await machine.stage(volume)
    assert held == dict.fromkeys(["blkid", "wipefs", "mkfs.ext4", "tune2fs", "e2fsck", "mount"], True) | {
        "sync": False,
        "umount": False,
    }
    assert not is_held()


async def test_staging_path_that_is_unmounted_while_it_is_bound(machine: Machine) -> None:
    """The bind would show the bare directory, and the Pod write to the node's own disk."""
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)

    def unmount(argv: list[str]) -> None:
        if "--bind" in argv:
            _run("umount", machine.staging(volume))

    machine.runner.before = unmount
    with pytest.raises(Unavailable, match="changed while it was bound"):
        await machine.publish(volume)
    assert machine.mounted() == []


async def test_directory_of_the_volume_is_not_the_volume(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    staging, target = machine.staging(volume), machine.target(volume)
    (staging / "sub").mkdir()
    target.mkdir(parents=True)
    _run("mount", "--bind", staging / "sub", target)
    with pytest.raises(AlreadyExists, match="shows the directory /sub"):
        await machine.publish(volume)
    _run("umount", target)
    _run("mount", "--bind", staging / "sub", staging)
    with pytest.raises(FailedPrecondition, match="shows the directory /sub"):
        await machine.publish(volume)
    with pytest.raises(FailedPrecondition, match="shows the directory /sub"):
        await machine.stage(volume)


async def test_links_are_not_mounted_through(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    outside = machine.root / "outside"
    outside.mkdir()
    staging, target = machine.staging(volume), machine.target(volume)
    for path in (staging, target):
        path.parent.mkdir(parents=True)
        path.symlink_to(outside)
    with pytest.raises(FailedPrecondition, match="is a symbolic link to"):
        await machine.stage(volume)
    staging.unlink()
    await machine.stage(volume)
    with pytest.raises(FailedPrecondition, match="is a symbolic link to"):
        await machine.publish(volume)
    target.unlink()
    target.symlink_to(machine.root / "made-by-nobody")
    with pytest.raises(FailedPrecondition, match="is a symbolic link to"):
        await machine.publish(volume, block=True)
    assert machine.mounted() == [staging]
    assert not (machine.root / "made-by-nobody").exists()


async def test_kubelet_directory_that_is_a_link(machine: Machine) -> None:
    """The kernel shows mounts under the real directory; the Pods' are to be found there too."""
    (machine.root / "kubelet").rename(machine.root / "data")
    (machine.root / "kubelet").symlink_to("data")
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.publish(volume)
    with pytest.raises(FailedPrecondition, match="still published"):
        await machine.unstage(volume)
    await machine.unpublish(volume)
    await machine.unstage(volume)


async def test_reader_is_given_no_writable_mount_whatever_the_flags(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    await machine.stage(volume, flags=("ro", "rw"), mode="SINGLE_NODE_READER_ONLY")
    with pytest.raises(OSError, match="Read-only"):
        (machine.staging(volume) / "hello").write_text("world")


@pytest.mark.parametrize("name", [b"a\rb", b"a\x0cb\x1cc", "a\u2028b\x85c".encode(), b"\xff\xfe", b" 1 0 8:16 \\ # - "])
async def test_odd_names_in_the_table_of_mounts(machine: Machine, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(machine.root) + b"/" + name))
    path.mkdir()  # noqa: ASYNC240 - on a local disk
    _run("mount", "-t", "tmpfs", "none", path)
    mounts = _mounts(machine)
    found = mounts.find(path)
    assert found is not None
    assert found.path == path
    assert await mounts.unmount(path) == 1
    assert mounts.find(path) is None


async def test_whole_size_is_used_and_none_is_left_out(machine: Machine) -> None:
    """A copy that was cut short is not mounted: its end would be missing."""
    volume = machine.volume("pvc-1", 320)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.unplug(disk)
    os.truncate(volume.file, 200 * MIB)
    machine.plug(volume, "sdb")
    with pytest.raises((Corrupt, Unavailable)):
        await machine.stage(volume)
    assert machine.mounted() == []
