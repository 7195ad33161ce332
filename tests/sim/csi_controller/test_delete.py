import pytest
from grpc import StatusCode

from tests.pvesim.faults import Rule, answer, cut_after, cut_before, task_fails
from tests.pvesim.state import Snapshot
from tests.pvesim.worlds import three_hosts, three_hosts_dict
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import Scene, open_scene

HANDLE = "cluster-1/pve1/local-lvm/vm-9999-pvc-1"


@pytest.mark.parametrize("volume_id", ["fake-vol-id", HANDLE, "cluster-1//ceph/vm-9999-gone"])
async def test_what_is_not_there_is_deleted(scene: Scene, volume_id: str) -> None:
    await scene.delete(volume_id)


async def test_an_id_that_was_never_ours_costs_nothing(scene: Scene) -> None:
    with scene.counted() as spent:
        await scene.delete("fake-vol-id")
    assert not spent.of("foreground")


@pytest.mark.parametrize(
    ("volume_id", "code", "word"),
    [
        ("", StatusCode.INVALID_ARGUMENT, "volume_id"),
        ("cluster-1/pve1/local-lvm/", StatusCode.INVALID_ARGUMENT, "disk is empty"),
        ("r9/pve1/local-lvm/vm-9999-x", StatusCode.FAILED_PRECONDITION, "region 'r9' is not configured"),
        ("cluster-1/pve9/local-lvm/vm-9999-x", StatusCode.FAILED_PRECONDITION, "not a Proxmox host"),
        ("cluster-1/pve1/local-lvm/vm-111-disk-0", StatusCode.FAILED_PRECONDITION, "belongs to id 111"),
        ("cluster-1/pve1/local/9999/other.raw", StatusCode.FAILED_PRECONDITION, "belongs to id 9999"),
        ("cluster-1/pve1/local-lvm/base-9999-x", StatusCode.FAILED_PRECONDITION, "belongs to id 9999"),
    ],
)
async def test_never_a_success_and_never_a_request(scene: Scene, volume_id: str, code: StatusCode, word: str) -> None:
    with scene.counted() as spent, refused(code, word):
        await scene.delete(volume_id)
    assert not spent.of("foreground")
    assert "local-lvm:vm-111-disk-0" in scene.vm().conf["scsi0"]


@pytest.mark.parametrize("where", ["conf", "pending", "unused", "snapshot"])
async def test_a_volume_that_a_vm_refers_to_stays(scene: Scene, where: str) -> None:
    volume = await scene.create()
    text = "local-lvm:vm-9999-pvc-1,size=1G"
    vm = scene.vm(112)
    match where:
        case "conf":
            vm.conf["scsi5"] = text
        case "pending":
            vm.pending["scsi5"] = text
        case "unused":
            vm.conf["unused5"] = text
        case "snapshot":
            vm.snapshots["before"] = Snapshot("before", {"scsi5": text}, snaptime=1)
    await scene.app.clusters.get("cluster-1").drives.holders("x:y", max_age_s=0.0)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 112 (worker-12)", "5"):
        await scene.delete(volume)
    assert scene.volids() == ["pve1/local-lvm:vm-9999-pvc-1"]


@pytest.mark.parametrize("action", [cut_before(), cut_after(), answer(596, "Connection timed out", "", after=True)])
async def test_lost_answers(scene: Scene, action: object) -> None:
    volume = await scene.create()
    before = action == cut_before()
    scene.world.faults.add(Rule(action, method="DELETE", path="*/content/*"))  # type: ignore[arg-type]
    if before:
        with refused(StatusCode.UNAVAILABLE):
            await scene.delete(volume)
        assert len(scene.volids()) == 1
    with scene.counted() as spent:
        await scene.delete(volume)
    assert spent.foreground <= 2
    assert scene.volids() == []


async def test_a_failed_deletion_is_no_success(scene: Scene) -> None:
    volume = await scene.create()
    scene.world.faults.add(
        Rule(
            task_fails("lvremove 'pve/vm-9999-pvc-1' error: Logical volume pve/x in use."),
            method="DELETE",
            path="*/content/*",
        )
    )
    with pytest.raises(Exception, match="in use"):
        await scene.delete(volume)
    assert len(scene.volids()) == 1
    await scene.delete(volume)
    assert scene.volids() == []


async def test_a_host_that_is_offline_is_unavailable(scene: Scene) -> None:
    volume = await scene.create(zone="pve3")
    shared = await scene.create("s", "ceph", "pve3")
    scene.world.broadcasts.darken("pve3", "cut")
    scene.world.clock.skip(10)
    await scene.app.clusters.get("cluster-1").inventory.refresh()
    with refused(StatusCode.UNAVAILABLE):
        await scene.delete(volume)
    await scene.delete(shared)


async def test_thick_lvm_fails_on_a_missing_volume_which_is_success_here() -> None:
    storages = three_hosts_dict()["storages"] | {"thick": {"type": "lvm", "vgname": "vg1", "content": "images"}}
    async with open_scene(three_hosts(storages=storages)) as scene:
        volume = await scene.create(storage="thick")
        assert volume.volume_id == "cluster-1/pve1/thick/vm-9999-pvc-1"
        await scene.delete(volume)
        with scene.counted() as spent:
            await scene.delete(volume)
        assert spent.foreground <= 2
