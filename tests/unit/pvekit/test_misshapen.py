"""Answers of status 200 that are no answers of Proxmox VE: a proxy's page, null, another type, half an object.

Nothing may be concluded from them: no "there is none", no "it is done", and no crash either.
"""

import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from appkit.clock import SystemClock
from appkit.errors import DriverError
from pvekit.clusters import Clusters, Region
from pvekit.errors import PveUnknownOutcome
from pvekit.settings import CloudConfig
from tests.unit.pvekit.conftest import new_metrics, settings_with

pytestmark = pytest.mark.looptime

VOLID = "local-lvm:vm-9999-pvc-1"
JUNK = {
    "page": b"<html><body>Bad gateway</body></html>",
    "nothing": b"",
    "no-data": b"{}",
    "null": b'{"data": null}',
    "text": b'{"data": "all is well"}',
    "number": b'{"data": 7}',
    "list-of-null": b'{"data": [null]}',
    "list-of-text": b'{"data": ["scsi1"]}',
    "empty-list": b'{"data": []}',
    "empty-object": b'{"data": {}}',
    "half-object": b'{"data": {"scsi1": "x"}}',
    "cut": b'{"data": {"size": 1',
    "array": b"[1, 2]",
}
READS: dict[str, Callable[[Region], Awaitable[object]]] = {
    "pending": lambda region: region.vms.pending("pve1", 111),
    "snapshots": lambda region: region.vms.snapshots("pve1", 111),
    "info": lambda region: region.storage.info("pve1", VOLID),
    "resources": lambda region: region.cluster.resources(),
    "nextid": lambda region: region.cluster.nextid_free(111),
    "refresh": lambda region: region.inventory.refresh(),
}
# An empty list or object is an answer of these.
OPEN_READS: dict[str, Callable[[Region], Awaitable[object]]] = {
    "config": lambda region: region.vms.config("pve1", 111),
    "status": lambda region: region.vms.status("pve1", 111),
    "definitions": lambda region: region.storage.definitions(),
    "volumes": lambda region: region.storage.list("pve1", "local-lvm"),
    "permissions": lambda region: region.cluster.permissions(),
    "version": lambda region: region.cluster.version(),
    "running": lambda region: region.tasks.running("pve1"),
    "failed": lambda region: region.tasks.failed("pve1", "qmconfig"),
}
WRITES: dict[str, Callable[[Region], Awaitable[object]]] = {
    "allocate": lambda region: region.storage.allocate("pve1", "local-lvm", 9999, "vm-9999-pvc-1", 1 << 30),
    "submit": lambda region: region.vms.submit("pve1", 111, {"scsi1": VOLID}, digest="d"),
    "resize": lambda region: region.vms.resize("pve1", 111, "scsi1", 1 << 30),
    "delete": lambda region: region.storage.delete("pve1", VOLID),
}


class Answers(httpx.AsyncBaseTransport):
    """The same body for whatever is asked."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=self._body)


def region_on(body: bytes) -> Region:
    clusters = Clusters.build(
        CloudConfig(clusters=(settings_with(),)),
        transport_for=lambda _: Answers(body),
        clock=SystemClock(),
        metrics=new_metrics(),
    )
    return clusters.get("r1")


@pytest.mark.parametrize("body", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("call", READS.values(), ids=READS)
async def test_no_reading_comes_of_it(call: Callable[[Region], Awaitable[object]], body: bytes) -> None:
    with pytest.raises(DriverError):
        await call(region_on(body))


@pytest.mark.parametrize("body", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("call", OPEN_READS.values(), ids=OPEN_READS)
async def test_only_what_may_be_empty_is_read_as_empty(
    call: Callable[[Region], Awaitable[object]], body: bytes
) -> None:
    try:
        await call(region_on(body))
    except DriverError:
        return
    assert body in (JUNK["empty-list"], JUNK["empty-object"], JUNK["half-object"])


@pytest.mark.parametrize("body", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_with_such_an_answer_has_an_unknown_outcome(name: str, body: bytes) -> None:
    if name != "allocate" and body == JUNK["null"]:
        await WRITES[name](region_on(body))  # null is "done" there; whoever asks reads the state afterwards
        return
    with pytest.raises(DriverError) as caught:
        await WRITES[name](region_on(body))
    if b'"data"' in body and body != JUNK["cut"]:
        assert isinstance(caught.value, PveUnknownOutcome)


async def test_a_tasks_list_with_strange_entries_gives_the_others() -> None:
    upid = "UPID:pve2:00000345:0001EBD8:6B0DCE75:qmconfig:100:csi@pve!csi:"
    entries = [{}, {"upid": 5}, {"upid": "x", "status": "err"}, {"upid": upid, "status": "boo"}]
    region = region_on(json.dumps({"data": entries}).encode())
    assert [str(each) for each in await region.tasks.running("pve2")] == [upid]
    assert [str(each.upid) for each in await region.tasks.failed("pve2", "qmconfig")] == [upid]
