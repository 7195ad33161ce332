"""Calls that concern a whole cluster: its resource list, its ids, its version, the token's own rights."""

from collections.abc import Mapping
from typing import Any

from pvekit.client import PveClient
from pvekit.errors import Call, ParameterError, ServerFailure
from pvekit.models import ClusterStatus, NodeEntry
from pvekit.scalars import as_int, as_str


class Cluster:
    """One region's cluster-wide calls; one request each."""

    def __init__(self, client: PveClient) -> None:
        self._client = client

    async def resources(self) -> list[dict[str, Any]]:
        """GET /cluster/resources, whole: hosts, guests and storages, filtered by the token's rights (then silently
        short). ServerFailure for one without any host: hosts are never filtered.
        """
        found = await self._client.get_list("/cluster/resources")
        if not any(entry.get("type") == "node" for entry in found):
            raise self._not_whole("/cluster/resources", "the list of resources names no host")
        return found

    async def nextid_free(self, vmid: int) -> bool:
        """Whether the cluster calls a VM id free. Sees every guest, whatever the token's rights (recorded, 9.2)."""
        try:
            free = as_int(await self._client.get("/cluster/nextid", {"vmid": vmid}))
        except ParameterError as error:
            if "already exists" in error.errors.get("vmid", ""):
                return False
            raise
        if free != vmid:
            raise self._not_whole("/cluster/nextid", f"the answer does not say that id {vmid} is free")
        return True

    async def next_id(self) -> int:
        """The lowest free VM id. Nothing reserves it: whoever creates a VM with it may still get VmExists."""
        vmid = as_int(await self._client.get("/cluster/nextid"))
        if vmid is None:
            raise self._not_whole("/cluster/nextid", "the answer is no VM id")
        return vmid

    async def status(self) -> ClusterStatus:
        """What the answering host knows of its cluster, quorum above all. Needs Sys.Audit on /."""
        status = ClusterStatus.parse(await self._client.get_list("/cluster/status"))
        if not status.nodes:
            raise self._not_whole("/cluster/status", "the answer names no host")
        return status

    async def hosts(self) -> list[NodeEntry]:
        """Every host, by name, as the answering one sees them (a silent one for about 8 s too long). Needs no right."""
        found = [node for raw in await self._client.get_list("/nodes") if (node := NodeEntry.parse(raw)) is not None]
        if not found:
            raise self._not_whole("/nodes", "the answer names no host")
        return sorted(found, key=lambda node: node.name)

    async def version(self) -> tuple[int, int]:
        """Major and minor release, (9, 2). Any valid token may ask."""
        answer = await self._client.get_object("/version")
        major, _, rest = (as_str(answer.get("version")) or "").partition(".")
        return as_int(major, 0) or 0, as_int(rest.partition(".")[0], 0) or 0

    async def permissions(self) -> dict[str, dict[str, bool]]:
        """The token's own rights: path → privilege → whether it also holds for everything below that path."""
        answer = await self._client.get_object("/access/permissions")
        if not all(isinstance(privileges, Mapping) for privileges in answer.values()):
            raise self._not_whole("/access/permissions", "the answer has a path without its privileges")
        return {
            path: {name: bool(as_int(inherited, 0)) for name, inherited in privileges.items()}
            for path, privileges in answer.items()
        }

    def _not_whole(self, path: str, text: str) -> ServerFailure:
        return ServerFailure(text, call=Call(self._client.region, "GET", path), status=200)
