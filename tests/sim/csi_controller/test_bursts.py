import asyncio
from math import ceil, log2

from grpc import StatusCode
from grpc.aio import AioRpcError

from csikit.pb import csi_pb2
from tests.pvesim.faults import Rule, delay, task_fails
from tests.sim.csi_controller.scene import Scene

COUNT = 24
FIRST_WRITE_S = 0.5
"""The first write takes as long as a real one, so that on the slowest machine too the rest comes while it runs."""


def _slow_first_write(scene: Scene) -> None:
    scene.world.faults.add(Rule(delay(FIRST_WRITE_S), method="POST", path="*/config"))


async def _created(scene: Scene, count: int = COUNT) -> list[csi_pb2.Volume]:
    return list(await asyncio.gather(*(scene.create(f"pvc-{n:02}") for n in range(count))))


async def _publish_all(scene: Scene, volumes: list[csi_pb2.Volume]) -> dict[str, AioRpcError]:
    """The failures by volume id; anything but a refused call is raised."""
    outcomes = await asyncio.gather(*(scene.publish(volume) for volume in volumes), return_exceptions=True)
    failures = {}
    for volume, outcome in zip(volumes, outcomes, strict=True):
        if isinstance(outcome, AioRpcError):
            failures[volume.volume_id] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return failures


async def test_24_publishes_to_one_vm_take_at_most_3_writes(scene: Scene) -> None:
    volumes = await _created(scene)
    _slow_first_write(scene)
    with scene.counted() as spent:
        assert await _publish_all(scene, volumes) == {}
    assert spent.config_writes <= 3
    assert all(scene.is_live(volume, 111) for volume in volumes)
    slots = [key for key in scene.vm().conf if key.startswith("scsi") and key not in ("scsihw", "scsi0")]
    assert len(slots) == COUNT
    _slow_first_write(scene)
    with scene.counted() as spent:
        await asyncio.gather(*(scene.unpublish(volume) for volume in volumes))
    assert spent.config_writes <= 3
    assert scene.attachments() == {}


async def test_one_bad_volume_fails_alone(scene: Scene) -> None:
    volumes = await _created(scene)
    bad = volumes[7]
    await scene.delete(bad)
    _slow_first_write(scene)
    with scene.counted() as spent:
        failures = await _publish_all(scene, volumes)
    assert list(failures) == [bad.volume_id]
    assert failures[bad.volume_id].code() is StatusCode.NOT_FOUND
    assert all(scene.is_live(volume, 111) for volume in volumes if volume is not bad)
    # Proxmox VE names the bad one: one write without it, besides the two that the good ones take.
    assert spent.config_writes <= 3


async def test_one_bad_volume_that_nobody_names_is_found_by_halving(scene: Scene) -> None:
    volumes = await _created(scene)
    bad = volumes[7]
    refusing = Rule(task_fails("qemu-img: Could not open: Image is not in qcow2 format"), method="POST", times=0)
    scene.world.faults.add(Refusing(refusing, bad.volume_id.rpartition("/")[2]))
    _slow_first_write(scene)
    with scene.counted() as spent:
        failures = await _publish_all(scene, volumes)
    assert list(failures) == [bad.volume_id]
    assert all(scene.is_live(volume, 111) for volume in volumes if volume is not bad)
    assert spent.config_writes <= 2 + 2 * ceil(log2(COUNT))


class Refusing(Rule):
    """Fails every config write that holds a volume, without saying which one it is about."""

    def __init__(self, rule: Rule, name: str) -> None:
        super().__init__(rule.action, method=rule.method, path="*/config", times=0)
        self._name = name
        self._hit = False

    def matches(self, method: str, path: str, params: object) -> bool:
        """Whether the request attaches the volume."""
        holds = isinstance(params, dict) and any(self._name in str(value) for value in params.values())
        return holds and super().matches(method, path, params if isinstance(params, dict) else {})


async def test_six_vms_at_once(scene: Scene) -> None:
    async def one(vmid: int) -> None:
        zone = f"pve{(vmid - 100) // 10}"
        for n in range(3):
            volume = await scene.create(f"pvc-{vmid}-{n}", zone=zone)
            await scene.publish(volume, vmid)
            assert scene.is_live(volume, vmid)
            await scene.unpublish(volume, vmid)
            await scene.delete(volume)

    await asyncio.gather(*(one(vmid) for vmid in scene.world.vms))
    assert scene.volids() == []
    assert scene.attachments() == {}
