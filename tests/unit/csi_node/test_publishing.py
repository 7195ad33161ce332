import pytest

from appkit.errors import AlreadyExists, FailedPrecondition, Unavailable
from csi_node.host.exec import CommandFailed
from csi_node.host.kernel import DeviceNumber
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.runner import Trouble

pytestmark = pytest.mark.looptime


async def test_publish_before_stage_is_refused(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.staging(volume).mkdir(parents=True)
    with pytest.raises(FailedPrecondition, match="is not staged"):
        await machine.publish(volume)
    assert machine.host.lines == []


async def test_twice_is_once_and_another_way_is_refused(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume, readonly=True)
    machine.host.lines.clear()
    await machine.publish(volume, readonly=True)
    assert machine.host.lines == []
    with pytest.raises(AlreadyExists, match="already published read-only, and writable was asked for"):
        await machine.publish(volume)
    await machine.unpublish(volume)
    assert not target.exists()
    await machine.unpublish(volume)


async def test_remount_names_the_flags_that_the_bind_copied(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume, flags=("nosuid", "noexec"))
    target = await machine.publish(volume, readonly=True)
    assert machine.host.lines[-1] == ["mount", "-o", "remount,bind,ro,nosuid,noexec", str(target)]


async def test_failed_remount_leaves_no_writable_mount(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = machine.target(volume)
    bind = ["mount", "--bind", str(machine.staging(volume)), str(target)]

    def break_remount() -> None:
        machine.host.before["mount"] = lambda: machine.host.troubles.append(Trouble("mount"))

    machine.host.before["mount"] = break_remount
    with pytest.raises(CommandFailed):
        await machine.publish(volume, readonly=True)
    assert bind in machine.host.lines
    assert machine.mounted() == [machine.staging(volume)]


async def test_staging_path_of_another_disk_is_refused(machine: FakeMachine) -> None:
    """What is mounted there is not the disk that the publish context names."""
    one, two = machine.volume("pvc-1"), machine.volume("pvc-2")
    disk = machine.plug(one, "sdb")
    await machine.stage(one)
    machine.unplug(disk)
    with pytest.raises(FailedPrecondition, match="not on this node: it must be staged again"):
        await machine.publish(one)
    machine.plug(two, "sdb")
    machine.plug(one, "sdc")
    with pytest.raises(FailedPrecondition, match="it must be staged again"):
        await machine.publish(one)


async def test_target_with_a_dead_disk_is_bound_anew(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume)
    machine.unplug(disk)
    machine.plug(volume, "sdc")
    await machine.stage(volume)
    await machine.publish(volume)
    assert machine.mounted() == [machine.staging(volume), target]
    assert machine.host.mountinfo().count("/sdc") == 2


async def test_target_of_another_living_volume_is_refused(machine: FakeMachine) -> None:
    one, two = machine.volume("pvc-1"), machine.volume("pvc-2")
    machine.plug(one, "sdb")
    machine.plug(two, "sdc")
    await machine.stage(one)
    await machine.stage(two)
    await machine.publish(one)
    machine.target(two).parent.mkdir(parents=True)
    machine.target(two).symlink_to(machine.target(one))
    table = machine.root / "state" / "mountinfo"
    table.write_text(table.read_text().replace(str(machine.target(one)), str(machine.target(two))))
    with pytest.raises(AlreadyExists, match="another device"):
        await machine.publish(two)


async def test_one_pod_only(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume, mode="SINGLE_NODE_SINGLE_WRITER")
    for _ in range(2):
        await machine.publish(volume, "pod-1", mode="SINGLE_NODE_SINGLE_WRITER")
    with pytest.raises(FailedPrecondition, match=r"for one Pod at a time, and is published at .*/pods/pod-1/"):
        await machine.publish(volume, "pod-2", mode="SINGLE_NODE_SINGLE_WRITER")
    await machine.publish(volume, "pod-2", mode="SINGLE_NODE_MULTI_WRITER")


async def test_reader_only_mode_is_read_only_whatever_the_call_says(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.publish(volume, mode="SINGLE_NODE_READER_ONLY")
    assert machine.host.lines[-1][:2] == ["mount", "-o"]


async def test_unpublish_never_deletes_content(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    target = machine.target(volume)
    target.mkdir(parents=True)
    (target / "precious").write_text("data")
    with pytest.raises(FailedPrecondition, match="files were written there"):
        await machine.unpublish(volume)
    (target / "precious").unlink()
    target.rmdir()
    target.write_text("data")
    with pytest.raises(FailedPrecondition, match="remove it by hand"):
        await machine.unpublish(volume)
    assert target.read_text() == "data"


async def test_unpublish_takes_off_every_layer(machine: FakeMachine) -> None:
    """The Go service stacks one bind per repeated call on a block target."""
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume)
    table = machine.root / "state" / "mountinfo"
    last = table.read_text().splitlines()[-1]
    table.write_text(table.read_text() + last.replace(last.split(" ")[0], "99", 1) + "\n")
    assert machine.mounted().count(target) == 2
    await machine.unpublish(volume)
    assert target not in machine.mounted()
    assert not target.exists()


async def test_block_volume(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    target = await machine.publish(volume, block=True)
    machine.host.lines.clear()
    await machine.publish(volume, block=True)
    assert machine.host.lines == []
    with pytest.raises(AlreadyExists):
        await machine.publish(volume, block=True, readonly=True)
    machine.unplug(disk)
    machine.plug(volume, "sdc")
    await machine.publish(volume, block=True)
    assert machine.mounted() == [target]
    await machine.unpublish(volume)
    assert machine.mounted() == []
    assert not target.exists()


async def test_exclusive_block_volume_is_refused_to_a_second_pod(machine: FakeMachine) -> None:
    """Found by csi-sanity with block volumes."""
    volume, other = machine.volume("pvc-1"), machine.volume("pvc-2")
    machine.plug(volume, "sdb")
    machine.plug(other, "sdc")
    mode = "SINGLE_NODE_SINGLE_WRITER"
    target = await machine.publish(volume, block=True, mode=mode)
    await machine.publish(other, "pod-2", block=True, mode=mode)
    await machine.publish(volume, block=True, mode=mode)  # the same Pod again
    with pytest.raises(FailedPrecondition, match=f"for one Pod at a time, and is published at {target}"):
        await machine.publish(volume, "pod-2", block=True, mode=mode)
    # kubelet's own map of the Pod is not another use.
    table = machine.root / "state" / "mountinfo"
    bound = next(line for line in table.read_text().splitlines() if f" {target} " in line)
    map_path = machine.root / "kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev" / target.name
    table.write_text(
        table.read_text() + bound.replace(str(target), str(map_path)).replace(bound.split()[0], "99", 1) + "\n"
    )
    await machine.publish(volume, block=True, mode=mode)


async def test_filesystem_that_shut_down_is_not_given_to_a_pod(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.host.shut_down.add(DeviceNumber(8, 16))
    with pytest.raises(Unavailable, match="does not answer"):
        await machine.publish(volume)
    assert machine.mounted() == [machine.staging(volume)]


async def test_writable_target_is_not_made_read_only_under_a_running_pod(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.publish(volume)
    with pytest.raises(AlreadyExists, match="already published writable, and read-only was asked for"):
        await machine.publish(volume, readonly=True)
    await machine.unpublish(volume)
    await machine.publish(volume, readonly=True)
