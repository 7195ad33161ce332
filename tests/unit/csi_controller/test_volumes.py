"""Storage types that the simulator does not have: third-party plugins that round, and LVM with volume chains."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.errors import AlreadyExists, InvalidRequest, OutOfRange
from appkit.metrics import Metrics
from csi_controller.parameters import parse_parameters
from csi_controller.placement import Segment
from csi_controller.regions import Regions
from csi_controller.sizes import SizeRange
from csi_controller.storage_types import MIB
from csi_controller.volumes import NewVolume, Volume, Volumes
from pvekit.clusters import Clusters
from pvekit.metrics import PveMetrics
from pvekit.settings import CloudConfig, ClusterSettings

GIB = 1024 * MIB
TOKEN = {"token_id": "a@pve!b", "token_secret": "not-a-real-one"}


class OneStorage(httpx.AsyncBaseTransport):
    """A host `pve1` and a shared storage `san` that adds `extra_bytes` to whatever it allocates."""

    def __init__(self, definition: dict[str, Any], extra_bytes: int = 0) -> None:
        self.definition = {"storage": "san", "shared": 1, "content": "images"} | definition
        self.extra_bytes = extra_bytes
        self.volumes: dict[str, dict[str, Any]] = {}
        self.allocations: list[dict[str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as Proxmox VE does."""
        path = request.url.path.removeprefix("/api2/json")
        volid = path.rpartition("/content/")[2]
        match request.method, path:
            case "GET", "/cluster/resources":
                return _answer([{"type": "node", "node": "pve1", "status": "online", "id": "node/pve1"}])
            case "GET", "/storage":
                return _answer([self.definition])
            case "GET", "/nodes/pve1/tasks" | "/nodes/pve1/qemu":
                return _answer([])
            case "GET", "/access/permissions":
                return _answer({"/": {"VM.Audit": 1}})
            case "POST", "/nodes/pve1/storage/san/content":
                return self._allocate({key: value[0] for key, value in parse_qs(request.content.decode()).items()})
            case "GET", _ if volid in self.volumes:
                return _answer(self.volumes[volid])
            case "DELETE", _:
                self.volumes.pop(volid)
                return _answer(None)
        raise AssertionError(f"{request.method} {path}")

    def _allocate(self, params: dict[str, str]) -> httpx.Response:
        volid = f"san:{params['filename']}"
        if volid in self.volumes:
            return httpx.Response(500, extensions={"reason_phrase": f"volume '{volid}' already exists".encode()})
        self.allocations.append(params)
        size = int(params["size"]) * 1024 + self.extra_bytes
        self.volumes[volid] = {"size": size, "format": params["format"], "path": "/dev/x", "used": 0}
        return _answer(volid)


def _answer(data: Any) -> httpx.Response:
    return httpx.Response(200, content=json.dumps({"data": data}))


@contextmanager
def _given(storage: OneStorage) -> Iterator[tuple[Clusters, Regions]]:
    config = CloudConfig(clusters=(ClusterSettings.model_validate({"region": "r", "urls": ["https://pve1"], **TOKEN}),))
    clusters = Clusters.build(
        config,
        transport_for=lambda settings: storage,
        clock=SystemClock(),
        metrics=PveMetrics(Metrics(CollectorRegistry())),
        drives=False,
    )
    yield clusters, Regions(clusters)


async def create(storage: OneStorage, required: int, limit: int = 0, **parameters: str) -> Volume:
    """CreateVolume against this storage, once."""
    with _given(storage) as (clusters, regions):
        clusters.start()
        await regions.settle()
        volumes = Volumes(regions, 9999)
        new = NewVolume(
            name="pvc-1",
            size=SizeRange(required, limit),
            parameters=parse_parameters({"storage": "san", **parameters}),
            segments=(Segment("r", "pve1"),),
            fs_type="ext4",
        )
        try:
            return await volumes.create(volumes.plan(new))
        finally:
            await clusters.aclose()


@pytest.mark.looptime
async def test_a_plugin_that_rounds_is_asked_for_the_real_size() -> None:
    storage = OneStorage({"type": "drbd"}, extra_bytes=8192)
    volume = await create(storage, 3 * GIB)
    assert volume.size_bytes == 3 * GIB + 8192
    assert (await create(storage, 3 * GIB)).size_bytes == 3 * GIB + 8192
    assert len(storage.allocations) == 1


@pytest.mark.looptime
async def test_rounding_beyond_the_limit_is_out_of_range_and_leaves_nothing() -> None:
    storage = OneStorage({"type": "drbd"}, extra_bytes=8192)
    with pytest.raises(OutOfRange, match="removed again"):
        await create(storage, 3 * GIB, 3 * GIB)
    assert storage.volumes == {}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("wished", "file_name", "image_format"),
    [("", "vm-9999-pvc-1", "raw"), ("raw", "vm-9999-pvc-1", "raw"), ("qcow2", "vm-9999-pvc-1.qcow2", "qcow2")],
)
async def test_name_and_format_go_together_on_a_volume_chain(wished: str, file_name: str, image_format: str) -> None:
    storage = OneStorage({"type": "lvm", "snapshot-as-volume-chain": 1})
    await create(storage, GIB, storageFormat=wished)
    assert storage.allocations == [{"vmid": "9999", "filename": file_name, "format": image_format, "size": "1048576"}]


@pytest.mark.looptime
async def test_plain_lvm_has_no_qcow2() -> None:
    with pytest.raises(InvalidRequest, match="qcow2"):
        await create(OneStorage({"type": "lvm"}), GIB, storageFormat="qcow2")


@pytest.mark.looptime
async def test_an_existing_volume_of_another_format_is_another_volume() -> None:
    storage = OneStorage({"type": "lvm"})
    await create(storage, GIB)
    storage.volumes["san:vm-9999-pvc-1"]["format"] = "subvol"
    with pytest.raises(AlreadyExists, match="subvol"):
        await create(storage, GIB)
