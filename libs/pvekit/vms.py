"""Calls on one VM: its config now and to come, writing it, growing a drive, its power state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pvekit.api_path import api_path
from pvekit.client import PveClient
from pvekit.errors import Call, ServerFailure
from pvekit.metrics import PveMetrics
from pvekit.models import VmStatus
from pvekit.scalars import Scalar, as_str
from pvekit.tasks import Tasks, started
from pvekit.upid import Upid
from pvekit.vm_config import VmConfig


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """`digest` is the VM config's ("" when the answer had none); `snapshots` as they come: name, snaptime, parent, …"""

    digest: str
    snapshots: tuple[Mapping[str, Any], ...]


class Vms:
    """One region's VMs, addressed by host and id. VmNotHere when the config is not on that host."""

    def __init__(self, client: PveClient, tasks: Tasks, metrics: PveMetrics) -> None:
        self._client = client
        self._tasks = tasks
        self._metrics = metrics

    async def pending(self, node: str, vmid: int) -> VmConfig:
        """What is live, what waits, and the digest: one request. Needs VM.Audit.

        ServerFailure for an answer without a digest: it is no whole config, and nothing may be concluded from it.
        """
        path = _path(node, vmid, "pending")
        config = VmConfig.parse(await self._client.get_list(path))
        if not config.digest:
            call = Call(self._client.region, "GET", path)
            raise ServerFailure("the answer has no digest and is no whole config", call=call, status=200)
        return config

    async def config(self, node: str, vmid: int, *, current: bool = False, snapshot: str = "") -> dict[str, Any]:
        """GET /config as it comes: with waiting changes merged in, or as the guest has it (`current`), or a
        snapshot's.
        """
        params: dict[str, Scalar] = {}
        if current:
            params["current"] = True
        if snapshot:
            params["snapshot"] = snapshot
        return await self._client.get_object(_path(node, vmid, "config"), params or None)

    async def snapshots(self, node: str, vmid: int) -> SnapshotList:
        """The VM's snapshots and the digest of the config they were listed under: one request. Needs VM.Audit."""
        path = _path(node, vmid, "snapshot")
        found = await self._client.get_list(path)
        digests = [as_str(entry.get("digest")) or "" for entry in found if entry.get("name") == "current"]
        if not digests:
            call = Call(self._client.region, "GET", path)
            raise ServerFailure("the list of snapshots is not whole: it lacks `current`", call=call, status=200)
        return SnapshotList(digests[0], tuple(entry for entry in found if entry.get("name") != "current"))

    async def status(self, node: str, vmid: int) -> VmStatus:
        """Power state now (the resource list lags 10 s). Needs VM.Audit."""
        return VmStatus.parse(await self._client.get_object(_path(node, vmid, "status", "current")))

    async def submit(
        self,
        node: str,
        vmid: int,
        changes: Mapping[str, str],
        *,
        delete: Sequence[str] = (),
        revert: Sequence[str] = (),
        digest: str | None,
    ) -> Upid | None:
        """POST /config: hand over one change; the task to follow, or None when there is nothing to wait for.

        POST forks a worker at once, where PUT holds one of the host's three API workers for as long as the guest takes
        (recorded, 9.2: 1 to 2 s for each unplug). A locked VM and a stale digest are refused here, the rest by the
        task.
        """
        params: dict[str, Scalar] = dict(changes)
        if delete:
            params["delete"] = ",".join(delete)
        if revert:
            params["revert"] = ",".join(revert)
        if digest:
            params["digest"] = digest
        path = _path(node, vmid, "config")
        return started(await self._client.post(path, params), Call(self._client.region, "POST", path))

    async def write(
        self,
        node: str,
        vmid: int,
        changes: Mapping[str, str],
        *,
        delete: Sequence[str] = (),
        revert: Sequence[str] = (),
        digest: str | None,
        wait_s: float = 30.0,
    ) -> None:
        """`submit`, and wait for the task. A good end says that the config was stored, not that the guest followed:

        without disk hot-plug the change only waits. The caller reads `pending` afterwards and decides by that.
        """
        upid = await self.submit(node, vmid, changes, delete=delete, revert=revert, digest=digest)
        await self._tasks.wait(upid, timeout_s=wait_s)

    async def resize(
        self, node: str, vmid: int, key: str, size_bytes: int, digest: str | None = None, *, wait_s: float = 60.0
    ) -> None:
        """Grow drive `key` to `size_bytes` (the same size is done at once) and wait for the task. Needs VM.Config.Disk.

        A well-formed request is always answered with a task; every refusal (shrinking, no such drive, lock, stale
        digest) is the task's text. Without quorum the image grows and the config keeps the old size (recorded, 9.2).
        """
        params: dict[str, Scalar] = {"disk": key, "size": size_bytes}
        if digest:
            params["digest"] = digest
        with self._metrics.operation("expandVolume"):
            path = _path(node, vmid, "resize")
            upid = started(await self._client.put(path, params), Call(self._client.region, "PUT", path))
            await self._tasks.wait(upid, timeout_s=wait_s)


def _path(node: str, vmid: int, *rest: str) -> str:
    return api_path("nodes", node, "qemu", vmid, *rest)
