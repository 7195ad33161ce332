"""Calls on volumes: allocate, look at, list and delete them; and which storages are configured."""

from collections.abc import Callable, Hashable, Sequence

from appkit.locks import KeyedLock
from pvekit.api_path import api_path
from pvekit.client import PveClient
from pvekit.errors import Call, PveUnknownOutcome, ServerFailure
from pvekit.metrics import PveMetrics
from pvekit.models import StorageDefinition, VolumeEntry, VolumeInfo
from pvekit.scalars import Scalar, as_int, as_str
from pvekit.tasks import Tasks, started

DELETE_WAIT_S = 120.0
_DELETE_DELAY_S = 5
"""Most deletions end within this, and then one request is all; a longer wait would hold one of the host's three
workers.
"""


class Storage:
    """One region's volumes. `lock_key(node, storage)` names what must not be changed twice at once.

    Proxmox VE takes one lock per storage (cluster-wide for shared ones) and gives up after 10 s, so that a burst of
    requests would fail by waiting for itself; here they wait in order.
    """

    def __init__(
        self, client: PveClient, tasks: Tasks, metrics: PveMetrics, *, lock_key: Callable[[str, str], Hashable]
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._metrics = metrics
        self._lock_key = lock_key
        self._locks = KeyedLock()

    async def allocate(
        self,
        node: str,
        storage: str,
        vmid: int,
        filename: str,
        size_bytes: int,
        format: str | None = None,  # noqa: A002
    ) -> str:
        """POST one volume, owned by `vmid`; the volid. Sizes go out in KiB, rounded up. Needs Datastore.AllocateSpace.

        Raises VolumeExists when the name is taken (by a volume of any size), VolumeNameRefused, NoSpace, LockTimeout,
        PveUnknownOutcome when it may exist now.
        """
        params: dict[str, Scalar] = {"filename": filename, "size": -(-size_bytes // 1024), "vmid": vmid}
        if format:
            params["format"] = format
        with self._metrics.operation("createVolume"):
            async with self._locks.hold(self._lock_key(node, storage)):
                path = api_path("nodes", node, "storage", storage, "content")
                volid = as_str(await self._client.post(path, params)) or ""
        if volid.partition(":")[0] != storage or not volid.partition(":")[2]:
            call = Call(self._client.region, "POST", path)
            raise PveUnknownOutcome(f"the answer names no volume of storage {storage!r}", call=call, status=200)
        return volid

    async def info(self, node: str, volid: str) -> VolumeInfo:
        """Size and format of one volume as seen from `node`; raises VolumeNotFound (see its `proved`).

        Needs Datastore.Allocate on the storage, or Datastore.Audit there and VM.Config.Disk on /vms/<owner>.
        """
        path = self._volume_path(node, volid)
        answer = await self._client.get_object(path)
        size_bytes = as_int(answer.get("size"))
        if size_bytes is None:
            raise ServerFailure("the answer has no size", call=Call(self._client.region, "GET", path), status=200)
        return VolumeInfo(
            volid=volid,
            size_bytes=size_bytes,
            used_bytes=as_int(answer.get("used")),
            format=as_str(answer.get("format")) or "",
            path=as_str(answer.get("path")) or "",
        )

    async def delete(self, node: str, volid: str, *, wait_s: float = DELETE_WAIT_S) -> None:
        """Delete one volume and wait for it. Needs Datastore.Allocate.

        Proxmox VE does not look whether a VM uses it: the caller has. A missing volume is success on directory and
        lvmthin storages and VolumeNotFound on thick LVM.
        """
        with self._metrics.operation("deleteVolume"):
            async with self._locks.hold(self._lock_key(node, volid.partition(":")[0])):
                path = self._volume_path(node, volid)
                answer = await self._client.delete(path, {"delay": _DELETE_DELAY_S})
                await self._tasks.wait(started(answer, Call(self._client.region, "DELETE", path)), timeout_s=wait_s)

    async def list(self, node: str, storage: str, vmid: int | None = None) -> Sequence[VolumeEntry]:
        """Disk images of a storage, of one owner if `vmid` is given. Filtered by rights: a missing entry is no proof.

        Slow on directory storages (20 ms for each image, recorded on 9.2); never poll it.
        """
        params: dict[str, Scalar] = {"content": "images"}
        if vmid is not None:
            params["vmid"] = vmid
        found = await self._client.get_list(api_path("nodes", node, "storage", storage, "content"), params)
        return [entry for raw in found if (entry := VolumeEntry.parse(raw)) is not None]

    async def definitions(self) -> Sequence[StorageDefinition]:
        """GET /storage: what is configured, as far as the token may see it (Datastore.Audit or AllocateSpace)."""
        found = await self._client.get_list("/storage")
        return [definition for raw in found if (definition := StorageDefinition.parse(raw)) is not None]

    @staticmethod
    def _volume_path(node: str, volid: str) -> str:
        return api_path("nodes", node, "storage", volid.partition(":")[0], "content", volid)
