"""Calls that concern a whole cluster: its resource list, its ids, its version, the token's own rights."""

from collections.abc import Mapping
from typing import Any

from pvekit.client import PveClient
from pvekit.errors import ParameterError
from pvekit.scalars import as_int, as_str


class Cluster:
    """One region's cluster-wide calls; one request each."""

    def __init__(self, client: PveClient) -> None:
        self._client = client

    async def resources(self) -> list[Mapping[str, Any]]:
        """GET /cluster/resources, whole: hosts, guests and storages, filtered by the token's rights (then silently
        short).
        """
        found = await self._client.get("/cluster/resources")
        return [entry for entry in found or [] if isinstance(entry, Mapping)]

    async def nextid_free(self, vmid: int) -> bool:
        """Whether the cluster calls a VM id free. Sees every guest, whatever the token's rights (recorded, 9.2)."""
        try:
            await self._client.get("/cluster/nextid", {"vmid": vmid})
        except ParameterError as error:
            if "already exists" in error.errors.get("vmid", ""):
                return False
            raise
        return True

    async def version(self) -> tuple[int, int]:
        """Major and minor release, (9, 2). Any valid token may ask."""
        answer = await self._client.get("/version")
        major, _, rest = (as_str((answer or {}).get("version")) or "").partition(".")
        return as_int(major, 0) or 0, as_int(rest.partition(".")[0], 0) or 0

    async def permissions(self) -> dict[str, dict[str, bool]]:
        """The token's own rights: path → privilege → whether it also holds for everything below that path."""
        answer = await self._client.get("/access/permissions")
        return {
            path: {name: bool(as_int(inherited, 0)) for name, inherited in privileges.items()}
            for path, privileges in (answer or {}).items()
            if isinstance(privileges, Mapping)
        }
