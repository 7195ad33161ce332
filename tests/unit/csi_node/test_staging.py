import asyncio
import dataclasses
from pathlib import Path

import pytest

from appkit.errors import AlreadyExists, Corrupt, FailedPrecondition, Pending, Unavailable, Unsupported
from csi_node.host.exec import CommandFailed, CommandTimeout
from csi_node.host.kernel import DeviceNumber
from csi_node.host.mounts import parse_mountinfo
from csi_node.host.signatures import UNFINISHED_LABEL
from tests.fakes import disk_formats
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import MIB, Volume
from tests.fakes.runner import Trouble

pytestmark = pytest.mark.looptime


def mkfs_runs(machine: FakeMachine) -> list[str]:
    return [line[0] for line in machine.host.lines if line[0].startswith("mkfs")]


def superblock(volume: Volume) -> disk_formats.Superblock:
    found = disk_formats.read_superblock(volume.file)
    assert found is not None
    return found


def options_at(machine: FakeMachine, path: Path) -> set[str]:
    mount = next(mount for mount in parse_mountinfo(machine.host.mountinfo()) if mount.path == path)
    return set(mount.options)


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
async def test_data_follows_the_volume_to_another_machine(tmp_path: Path, fs_type: str) -> None:
    one = FakeMachine(tmp_path / "one", tmp_path / "shared")
    two = FakeMachine(tmp_path / "two", tmp_path / "shared")
    volume = one.volume("pvc-1")
    disk = one.plug(volume, "sdb")
    await one.stage(volume, fs_type)
    target = await one.publish(volume)
    (target / "hello").write_text("world")
    await one.unpublish(volume)
    await one.unstage(volume)
    one.unplug(disk)
    assert one.mounted() == []

    two.plug(volume, "sdf")
    await two.stage(volume, fs_type)
    target = await two.publish(volume)
    assert (target / "hello").read_text() == "world"
    assert mkfs_runs(two) == []


async def test_stage_again_does_nothing(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.host.lines.clear()
    await machine.stage(volume)
    assert machine.host.lines == []
    assert superblock(volume).label == ""


@pytest.mark.parametrize("program", ["blkid", "mkfs.ext4", "tune2fs", "mount"])
@pytest.mark.parametrize("killed", [False, True])
async def test_trouble_at_each_step_of_the_first_stage_is_got_over(
    machine: FakeMachine, program: str, *, killed: bool
) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.troubles.append(Trouble(program, killed=killed))
    with pytest.raises(CommandTimeout if killed else CommandFailed):
        await machine.stage(volume)
    await machine.stage(volume)
    assert superblock(volume).label == ""
    assert superblock(volume).state == disk_formats.CLEAN
    assert machine.mounted() == [machine.staging(volume)]


async def test_killed_mkfs_xfs_is_made_again(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.troubles.append(Trouble("mkfs.xfs", killed=True))
    with pytest.raises(CommandTimeout):
        await machine.stage(volume, "xfs")
    assert superblock(volume).in_progress
    await machine.stage(volume, "xfs")
    assert not superblock(volume).in_progress
    assert ["mkfs.xfs", "-f", f"{machine.root}/dev/sdb"] in machine.host.lines


async def test_mkfs_of_another_kind_over_an_unfinished_one(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.troubles.append(Trouble("tune2fs"))
    with pytest.raises(CommandFailed):
        await machine.stage(volume, "ext4")
    assert superblock(volume).label == UNFINISHED_LABEL
    await machine.stage(volume, "xfs")
    assert superblock(volume).fs_type == "xfs"


async def test_disk_swapped_between_probe_and_mkfs_is_not_formatted(machine: FakeMachine) -> None:
    """The kernel's name is taken over by another volume's disk while blkid runs."""
    volume, other = machine.volume("pvc-1"), machine.volume("pvc-2")
    disk = machine.plug(volume, "sdb")

    def swap() -> None:
        machine.unplug(disk)
        machine.plug(other, "sdb")

    machine.host.before["blkid"] = swap
    with pytest.raises(Unavailable, match="the disk was swapped or unplugged"):
        await machine.stage(volume)
    assert mkfs_runs(machine) == []
    assert disk_formats.read_superblock(other.file) is None


async def test_disk_swapped_during_mkfs_is_not_mounted(machine: FakeMachine) -> None:
    volume, other = machine.volume("pvc-1"), machine.volume("pvc-2")
    formatted = machine.plug(other, "sdb")
    await machine.stage(other)
    await machine.unstage(other)
    machine.unplug(formatted)
    disk = machine.plug(volume, "sdb")

    def swap() -> None:
        machine.unplug(disk)
        machine.plug(other, "sdb")

    machine.host.before["tune2fs"] = swap
    with pytest.raises(Unavailable, match="swapped or unplugged"):
        await machine.stage(volume)
    assert machine.mounted() == []


async def test_foreign_and_ambivalent_content_is_refused(machine: FakeMachine) -> None:
    for name, content, words in (
        ("luks", (0, b"LUKS\xba\xbe"), "a signature of crypto_LUKS"),
        ("table", (510, b"\x55\xaa"), r"a partition table \(dos\)"),
        ("text", (3, b"hello"), "data that no known format explains"),
    ):
        volume = machine.volume(name)
        with volume.file.open("r+b") as file:
            file.seek(content[0])
            file.write(content[1])
        disk = machine.plug(volume, "sdb")
        with pytest.raises(Corrupt, match=words):
            await machine.stage(volume)
        machine.unplug(disk)
    volume = machine.volume("both")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    with volume.file.open("r+b") as file:
        file.write(b"XFSB")
    with pytest.raises(Corrupt, match="several formats at once"):
        await machine.stage(volume)


async def test_unreadable_disk_is_not_blank(machine: FakeMachine) -> None:
    """blkid answers 2 for a disk it cannot read as for one with nothing on it."""
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    volume.file.unlink()
    with pytest.raises(Unavailable):
        await machine.stage(volume)
    assert machine.host.lines == []
    assert disk.name == "sdb"


async def test_damaged_filesystem_is_not_mounted(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    found = superblock(volume)
    for state in (disk_formats.DIRTY, disk_formats.BROKEN):
        disk_formats.write_superblock(
            volume.file,
            disk_formats.Superblock("ext4", found.size_bytes, found.id, state=state),
        )
        if state == disk_formats.BROKEN:
            with pytest.raises(Corrupt, match="must be repaired by hand"):
                await machine.stage(volume)
        else:
            await machine.stage(volume)
            await machine.unstage(volume)
    assert machine.mounted() == []


@pytest.mark.parametrize(("fs_type", "online"), [("ext4", True), ("ext4", False), ("xfs", True)])
async def test_filesystem_smaller_than_its_disk_is_grown(machine: FakeMachine, fs_type: str, *, online: bool) -> None:
    machine.host.can_grow_mounted_ext4 = online
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type)
    await machine.unstage(volume)
    machine.grow(disk, 1024)
    await machine.stage(volume, fs_type)
    assert superblock(volume).size_bytes == 1024 * MIB
    assert machine.mounted() == [machine.staging(volume)]


async def test_growth_that_failed_leaves_nothing_mounted_and_is_repeated(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.grow(disk, 1024)
    machine.host.troubles.append(Trouble("resize2fs"))
    with pytest.raises(CommandFailed):
        await machine.stage(volume)
    assert machine.mounted() == []
    await machine.stage(volume)
    assert superblock(volume).size_bytes == 1024 * MIB


async def test_vanished_disk_under_the_mount_is_repaired(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.unplug(disk)
    machine.plug(volume, "sdc")
    await machine.stage(volume)
    [mount] = parse_mountinfo(machine.host.mountinfo())[1:]
    assert mount.source.endswith("/sdc")
    assert mkfs_runs(machine) == ["mkfs.ext4"]


async def test_filesystem_that_shut_down_is_mounted_again_unless_it_stays_so(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    number = parse_mountinfo(machine.host.mountinfo())[1].number
    machine.host.shut_down.add(number)
    with pytest.raises(Unavailable, match="answers with I/O errors"):
        await machine.stage(volume)
    assert machine.mounted() == []
    machine.host.shut_down.clear()
    await machine.stage(volume)
    assert machine.mounted() == [machine.staging(volume)]


async def test_another_device_at_the_staging_path(machine: FakeMachine) -> None:
    one, two = machine.volume("pvc-1"), machine.volume("pvc-2")
    machine.plug(one, "sdb")
    machine.plug(two, "sdc")
    await machine.stage(one)
    request = machine.stage_request(two)
    request.staging_target_path = str(machine.staging(one))
    with pytest.raises(FailedPrecondition, match="has another device mounted"):
        await machine.node.NodeStageVolume(request, None)  # type: ignore[arg-type]


async def test_other_capability_than_staged(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    with pytest.raises(AlreadyExists):
        await machine.stage(volume, "xfs")
    with pytest.raises(AlreadyExists):
        await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")
    await machine.unstage(volume)
    with pytest.raises(FailedPrecondition, match="holds ext4, but xfs was asked for"):
        await machine.stage(volume, "xfs")


async def test_mount_options(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs", flags=("noexec",), context={"ssd": "true"})
    mount = next(line for line in machine.host.lines if line[0] == "mount")
    assert mount[3:5] == ["-o", "noexec,noatime,nouuid"]
    assert options_at(machine, machine.staging(volume)) == {"rw", "noexec", "noatime"}


async def test_read_only_disk_is_mounted_read_only(machine: FakeMachine) -> None:
    """Attached with ro=1: neither mkfs nor fsck would get anywhere."""
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.unplug(disk)
    machine.plug(volume, "sdb", read_only=True)
    machine.host.lines.clear()
    await machine.stage(volume)
    assert machine.host.programs() == ["blkid", "mount"]
    assert "ro" in options_at(machine, machine.staging(volume))


async def test_disk_left_offline_by_the_go_service_is_set_running(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb", state="offline")
    await machine.stage(volume)
    assert (machine.root / "sys/block/sdb/device/state").read_text() == "running\n"


async def test_disk_attached_by_the_peer_is_found_by_its_slot_name(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb", wwn="0x5056432d49443031")
    request = machine.stage_request(volume)
    request.publish_context["DevicePath"] = "/dev/disk/by-id/wwn-0x5056432d49443031"
    await machine.node.NodeStageVolume(request, None)  # type: ignore[arg-type]
    assert machine.mounted() == [machine.staging(volume)]


async def test_block_volume_needs_only_its_disk(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    with pytest.raises(Unavailable, match="no disk with WWN"):
        await machine.stage(volume, block=True)
    machine.plug(volume, "sdb")
    await machine.stage(volume, block=True)
    assert machine.host.lines == []


async def test_encryption_is_refused_not_ignored(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    request = machine.stage_request(volume)
    request.secrets["encryption-passphrase"] = "correct horse"
    with pytest.raises(Unsupported, match="not stored unencrypted"):
        await machine.node.NodeStageVolume(request, None)  # type: ignore[arg-type]
    assert machine.host.lines == []


async def test_unstage_waits_for_the_pods(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume)
    with pytest.raises(FailedPrecondition, match=f"still published at {target}"):
        await machine.unstage(volume)
    assert machine.staging(volume) in machine.mounted()
    await machine.unpublish(volume)
    machine.host.busy.add(machine.staging(volume))
    with pytest.raises(FailedPrecondition, match="still in use"):
        await machine.unstage(volume)
    machine.host.busy.clear()
    await machine.unstage(volume)
    await machine.unstage(volume)
    assert not machine.staging(volume).exists()


async def test_unstage_with_the_disk_gone(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.unplug(disk)
    await machine.unstage(volume)
    assert machine.mounted() == []


async def test_unstage_leaves_files_that_are_not_the_volumes(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    staging = machine.staging(volume)
    staging.mkdir(parents=True)
    (staging / "precious").write_text("data")
    await machine.unstage(volume)
    assert (staging / "precious").read_text() == "data"


async def test_work_goes_on_when_the_caller_has_gone(machine: FakeMachine) -> None:
    """kubelet gives up after two minutes; a mkfs of five must not begin anew each time."""
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.duration_s["mkfs.ext4"] = 300.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(120):
            await machine.stage(volume)
    with pytest.raises(Pending, match=r"NodeStageVolume on .* is still running"):
        await machine.stage(volume)
    with pytest.raises(Pending):
        await machine.unstage(volume)
    await asyncio.sleep(200)
    await machine.stage(volume)
    assert mkfs_runs(machine) == ["mkfs.ext4"]


@pytest.mark.parametrize("code", [-9, 127, 8])
async def test_fsck_that_could_not_do_its_work_says_nothing_of_the_filesystem(machine: FakeMachine, code: int) -> None:
    """Killed for want of memory, not installed, device in use: none of them is a damage to repair by hand."""
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.host.troubles.append(Trouble("e2fsck", code))
    with pytest.raises(CommandFailed):
        await machine.stage(volume)
    await machine.stage(volume)


async def test_mounted_where_nobody_here_sees_it_is_not_checked(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.unstage(volume)
    machine.host.mounted_elsewhere.add(DeviceNumber(8, 16))
    await machine.stage(volume)
    assert machine.mounted() == [machine.staging(volume)]


async def test_data_that_cannot_be_written_keeps_the_volume_staged(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.host.troubles.append(Trouble("sync", words="sync: error syncing: No space left on device"))
    with pytest.raises(CommandFailed, match="No space left"):
        await machine.unstage(volume)
    assert machine.mounted() == [machine.staging(volume)]
    await machine.unstage(volume)
    assert machine.mounted() == []


async def test_filesystem_that_shut_down_is_unstaged_without_a_flush(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.host.shut_down.add(DeviceNumber(8, 16))
    machine.host.programs()
    await machine.unstage(volume)
    assert machine.host.programs() == ["umount"]


async def test_slow_disk_is_not_taken_for_a_dead_one(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.host.slow.add(DeviceNumber(8, 16))
    machine.host.programs()
    with pytest.raises(Unavailable, match="does not answer"):
        await machine.stage(volume)
    with pytest.raises(Unavailable, match="does not answer"):
        await machine.unstage(volume)
    assert machine.host.programs() == []
    machine.host.slow.clear()
    await machine.stage(volume)


async def test_one_disk_under_two_volume_ids_is_worked_on_by_one_at_a_time(machine: FakeMachine) -> None:
    """A volume that moved has another id and the same disk: its old PersistentVolume may still be staged."""
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.duration_s["mkfs.ext4"] = 10.0
    first = asyncio.create_task(machine.stage(volume))
    await asyncio.sleep(1)
    again = Volume(volume.handle.replace("/pve1/", "/pve2/"), volume.file)
    assert again.wwn == volume.wwn
    with pytest.raises(Pending, match="NodeStageVolume"):
        await machine.stage(again)
    await first
    assert mkfs_runs(machine) == ["mkfs.ext4"]


async def test_partition_table_at_the_end_of_a_disk(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    with volume.file.open("r+b") as file:
        file.seek(-512, 2)
        file.write(b"EFI PART")
    machine.plug(volume, "sdb")
    with pytest.raises(Corrupt, match="remains of gpt"):
        await machine.stage(volume)
    assert mkfs_runs(machine) == []


async def test_mark_on_a_filesystem_that_was_mounted_is_no_leave_to_format(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    (machine.staging(volume) / "hello").write_text("world")
    await machine.unstage(volume)
    disk_formats.write_superblock(volume.file, dataclasses.replace(superblock(volume), label=UNFINISHED_LABEL))
    await machine.stage(volume)
    assert (machine.staging(volume) / "hello").read_text() == "world"
