"""Three faults planted on purpose, each one that a driver of this kind was once shipped with.

They prove that the harness would notice. Applied to the objects of a program before it starts; only here, in tests.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pvekit.clusters import Clusters
from pvekit.locator import Locator
from pvekit.models import VmRef
from pvekit.presence import Absent, Presence
from pvekit.tasks import DEFAULT_WAIT_S, TaskDone, Tasks
from pvekit.upid import Upid
from pvekit.vms import Vms
from tests.sim.harness.programs import Plant


class _WithoutDigest(Vms):
    """Writes whatever stands in the config by now: what somebody else wrote since it was read is lost."""

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
        return await super().submit(node, vmid, changes, delete=delete, revert=revert, digest=None)


class _TrustsTheList(Locator):
    """Takes a VM that is not in the resource list for one that does not exist; lists are filtered by rights."""

    async def find(self, vmid: int, *, fresh: bool = False) -> Presence[VmRef]:
        if fresh:
            await self._inventory.refresh()
        return self._listed(vmid) or Absent("it is not in the list")


class _IgnoresTheEnd(Tasks):
    """Takes a task that was started for one that ended well."""

    async def wait(self, upid: Upid | str | None, *, timeout_s: float = DEFAULT_WAIT_S) -> TaskDone:
        return TaskDone()


def drop_the_digest(clusters: Clusters) -> None:
    for region in clusters.regions():
        region.vms.__class__ = _WithoutDigest


def trust_the_list(clusters: Clusters) -> None:
    for region in clusters.regions():
        region.locator.__class__ = _TrustsTheList


def ignore_the_end(clusters: Clusters) -> None:
    for region in clusters.regions():
        region.tasks.__class__ = _IgnoresTheEnd


PLANTS: Final[Mapping[str, Plant]] = MappingProxyType(
    {"drop-the-digest": drop_the_digest, "trust-the-list": trust_the_list, "ignore-the-end": ignore_the_end}
)
