"""596: an answer that says nothing about what happened, with the effect done, still being done, or not done at all."""

import asyncio

import pytest

from tests.pvesim.direct import Reply
from tests.pvesim.faults import Rule, answer
from tests.sim.pvesim.measured import Measured

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"
CONTENT = "/nodes/pve1/storage/local/content"
NEW = {"vmid": 9999, "filename": "vm-9999-a.raw", "size": "64M"}


def is_596(reply: Reply, reason: str) -> bool:
    return (reply.status, reply.reason, reply.raw) == (596, reason, b"")


async def test_a_worker_that_was_recycled_did_nothing(cluster: Measured) -> None:
    cluster.world.faults.add(Rule(answer(596, "Broken pipe"), method="POST", path=CONTENT))
    assert is_596(await cluster.csi.post(CONTENT, **NEW), "Broken pipe")
    assert (await cluster.csi.get(CONTENT, vmid=9999)).data == []
    assert (await cluster.csi.post(CONTENT, **NEW)).status == 200


async def test_an_answer_lost_on_the_way_hides_a_success(cluster: Measured) -> None:
    cluster.world.faults.add(Rule(answer(596, "Connection timed out", after=True), method="POST", path=CONTENT))
    assert is_596(await cluster.csi.post(CONTENT, **NEW), "Connection timed out")
    assert len((await cluster.csi.get(CONTENT, vmid=9999)).data) == 1
    # The repeat meets what the first try made.
    again = await cluster.csi.post(CONTENT, **NEW)
    assert again.reason == "disk image '/var/lib/vz/images/9999/vm-9999-a.raw' already exists"


async def test_sixteen_detaches_outlast_the_proxy_and_are_done_four_seconds_later(cluster: Measured) -> None:
    cluster.world.vms[111].conf["scsihw"] = "virtio-scsi-single"
    slots = [f"scsi{number}" for number in range(1, 17)]
    for slot in slots:
        assert (await cluster.csi.put(CONFIG, **{slot: await cluster.volume(slot)})).status == 200
    reply, took = await cluster.timed(cluster.csi.put(CONFIG, delete=",".join(slots)))
    assert is_596(reply, "Connection timed out")
    assert took == pytest.approx(30)
    # Devices leave the guest one by one, the configuration shows all of them to the last.
    assert len(cluster.world.vms[111].plugged) < 5
    assert {key for key, entry in (await cluster.pending()).items() if entry.get("delete")} == set(slots)
    await asyncio.sleep(4)
    assert not [key for key in await cluster.pending() if key in slots]


async def test_synchronous_writes_share_three_workers_and_reads_do_not_notice(cluster: Measured) -> None:
    slots = [f"scsi{number}" for number in range(1, 13)]
    for slot in slots:
        await cluster.csi.put(CONFIG, **{slot: await cluster.volume(slot)})
    begin = cluster.now()
    writes = [asyncio.create_task(cluster.csi.put(CONFIG, delete=slot)) for slot in slots]
    await asyncio.sleep(0.1)
    _, took = await cluster.timed(cluster.csi.get(CONFIG))
    assert took < 0.05
    # Protected calls wait behind them, reads though they are.
    _, took = await cluster.timed(cluster.csi.get(f"{CONTENT}/local:9999/vm-9999-scsi1.raw"))
    assert took > 5
    replies = await asyncio.gather(*writes)
    assert {reply.status for reply in replies} == {200}
    # One configuration, one lock: 12 x 1 s one after the other, though no one waits ten seconds for the lock itself.
    assert cluster.now() - begin == pytest.approx(12.4, abs=0.5)
