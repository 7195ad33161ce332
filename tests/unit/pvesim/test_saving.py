"""A world written down and read again is the same world."""

import asyncio
import json

import pytest
import yaml

from tests.pvesim.direct import Direct
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts_dict

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"


async def busy_world() -> World:
    """Something of everything: pending changes, snapshots, HA, a pool, a dark host, a foreign disk, tasks."""
    world = World.from_dict(three_hosts_dict(profile="as measured", release="9.1"))
    root = Direct.by_ticket(world, "root@pam")
    made = await root.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    await root.put(CONFIG, scsi3=f"{made.data},wwn=0x5056432d49443031")
    await root.put(CONFIG, memory=1024, delete="cores")
    await root.finish(await root.post("/nodes/pve1/qemu/112/snapshot", snapname="s1"))
    await root.post("/pools", poolid="p1", comment="x")
    await root.put("/pools", poolid="p1", vms="112", storage="local")
    await root.post("/cluster/ha/resources", sid="vm:121", state="stopped")
    await root.post("/cluster/ha/rules", rule="r1", type="node-affinity", resources="vm:121", nodes="pve2:1")
    world.broadcasts.darken("pve3", "cut")
    world.vms[112].paused = True
    world.vms[112].poisoned_slots.add("scsi9")
    await asyncio.sleep(20)
    await world.tasks.settle()
    return world


async def test_dump_and_load_are_inverses() -> None:
    world = await busy_world()
    saved = world.dump()
    assert World.from_dict(saved).dump() == saved
    # It is plain data.
    for again in (json.loads(json.dumps(saved)), yaml.safe_load(yaml.safe_dump(saved))):
        assert World.from_dict(again).dump() == saved


async def test_a_loaded_world_answers_as_the_first_did() -> None:
    first = await busy_world()
    second = World.from_dict(first.dump())
    task = next(iter(first.tasks.by_upid))
    for path in (
        CONFIG, "/nodes/pve1/qemu/111/pending", "/nodes/pve1/qemu/112/snapshot", "/nodes/pve1/qemu/112/status/current",
        "/nodes/pve1/storage/local/content", "/cluster/ha/rules", f"/nodes/pve1/tasks/{task}/status", "/access/acl",
        "/cluster/ha/status/current", "/cluster/status", "/version", "/pools",
    ):  # fmt: skip
        replies = [await Direct(world, ROOT_TOKEN, ROOT_SECRET).get(path) for world in (first, second)]
        assert replies[0].status == 200
        assert str_sorted(replies[0].data) == str_sorted(replies[1].data), path


def str_sorted(data: object) -> object:
    """Lists come in any order; process ids and moments are another life's."""
    drop = ("pid", "ssl_fingerprint", "timestamp", "status", "content", "privs", "uptime", "ctime", "shared")
    if isinstance(data, list):
        return sorted((str_sorted(item) for item in data), key=str)
    if isinstance(data, dict):
        return {key: str_sorted(value) for key, value in sorted(data.items()) if key not in drop}
    return data


async def test_what_was_under_way_is_dead_in_the_loaded_world() -> None:
    world = World.from_dict(three_hosts_dict(profile="as measured"))
    csi = Direct(world, CSI_TOKEN, CSI_SECRET)
    made = await csi.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    reply = await csi.post(CONFIG, scsi3=made.data)
    await asyncio.sleep(0.06)
    second = World.from_dict(world.dump())
    assert second.tasks.by_upid[reply.data].exitstatus == "unexpected status"
    assert "scsi3" not in second.vms[111].conf


async def test_a_scaled_clock_makes_every_wait_shorter() -> None:
    world = World.from_dict(three_hosts_dict(profile="as measured", clock_scale=10))
    csi = Direct(world, CSI_TOKEN, CSI_SECRET)
    await world.vms[111].config_lock.acquire()
    begin, loop = world.clock.monotonic(), asyncio.get_running_loop()
    real = loop.time()
    reply = await csi.put(CONFIG, description="x", digest="")
    assert reply.status == 403
    reply = await csi.put(CONFIG, delete="scsi7")
    assert "got timeout" in reply.reason
    assert loop.time() - real == pytest.approx(1.0, abs=0.1)
    assert world.clock.monotonic() - begin == pytest.approx(10.0, abs=0.5)
    with pytest.raises(ValueError, match="scale"):
        World.from_dict(three_hosts_dict(clock_scale=0))
