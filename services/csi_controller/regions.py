"""The configured regions, and whether each may be served yet.

A region may be once its inventory was read, and once the changes that an earlier process of this service had begun have
ended: a killed controller leaves tasks behind that still attach, and whoever looks at a VM's config meanwhile would see
the disk nowhere. Must not know volumes.
"""

import asyncio

from appkit.errors import DriverError, FailedPrecondition, NotFound, Unavailable
from appkit.logs import get_logger
from pvekit.clusters import Clusters, Region
from pvekit.inventory import Trust
from pvekit.purpose import purpose

_log = get_logger(__name__)

_SETTLE_S = 120.0
"""Longer than any task this service starts takes on a healthy host."""
_OUR_TASKS = frozenset({"qmconfig", "resize", "imgdel"})
"""What this service starts; a long copy that an operator started with the same token is not waited for."""


class Regions:
    """The door to `pvekit.clusters` for everything below the servicer."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._settled: set[str] = set()

    def all(self) -> list[Region]:
        """Every region, by name, ready or not."""
        return self._clusters.regions()

    def get(self, name: str) -> Region:
        """One region that may be served.

        FailedPrecondition for one that is not configured (its volumes may well exist), Unavailable for one that is not
        ready yet.
        """
        try:
            region = self._clusters.get(name)
        except NotFound as error:
            raise FailedPrecondition(f"{error}; its volumes cannot be reached without its credentials") from error
        if not self.is_ready(region):
            raise Unavailable(f"the inventory of region {name!r} is not loaded yet")
        return region

    def is_ready(self, region: Region) -> bool:
        """Whether the region may be served."""
        return region.inventory.snapshot.trust is not Trust.NONE and region.name in self._settled

    async def settle(self) -> None:
        """Make every region ready, each as soon as it can be; returns when all are. Run in the background."""
        with purpose("background"):
            await asyncio.gather(*(self._settle(region) for region in self.all()))

    async def _settle(self, region: Region) -> None:
        await region.inventory.wait_ready(None)
        nodes = region.inventory.nodes()
        for node in nodes:
            if not node.online:
                region.writers.recall_later(node.name)
        await asyncio.gather(*(_finish_tasks(region, node.name) for node in nodes if node.online))
        # Only now: what the index had read before a task's end would be believed for a while.
        region.drives.start()
        self._settled.add(region.name)


async def _finish_tasks(region: Region, host: str) -> None:
    """Wait for this token's tasks on one host, and let the writers learn from those that failed.

    A host that does not answer is passed over: nothing is attached there before it is asked again.
    """
    try:
        for upid in await region.tasks.running(host):
            if upid.type not in _OUR_TASKS:
                continue
            _log.info("waiting for a task of an earlier process", extra={"upid": str(upid)})
            try:
                await region.tasks.wait(upid, timeout_s=_SETTLE_S)
            except DriverError as error:
                _log.info("it ended", extra={"upid": str(upid), "how": str(error)})
        await region.writers.recall(host)
    except DriverError as error:
        region.writers.recall_later(host)
        _log.warning("tasks of an earlier process are not known", extra={"host": host, "error": str(error)})
