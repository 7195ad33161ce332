"""Attaching and detaching volumes: the only writer of VM configs.

Config is not reality: a write that ended well may only wait to be applied, and one that failed may have left part of
itself behind. So each batch reads, writes with the digest it read, follows the task, reads again, and answers each
caller from what was seen last. It must not be bypassed: two writers on one VM lose each other's changes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from appkit.clock import Clock
from appkit.errors import Unavailable
from appkit.logs import get_logger
from pvekit.drive_index import DriveIndex
from pvekit.drives import Drive, scsi_slot
from pvekit.errors import HotplugFailed
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.metrics import PveMetrics
from pvekit.purpose import purpose
from pvekit.tasks import Tasks
from pvekit.vm_batch import Tools
from pvekit.vm_batches import VmBatches
from pvekit.vm_config_plan import Wish
from pvekit.vms import Vms

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A volume that was seen live in a VM: `key` "scsi7", `slot` 7, `drive` as the config has it.

    `already` says that nothing had to be written; the drive's options are then those it was attached with.
    """

    vmid: int
    node: str
    key: str
    slot: int
    drive: Drive
    already: bool


class VmConfigWriters:
    """One writer per VM of a region. It serialises, and puts all that waits into one write.

    Foreground requests: 3 for one change (pending, config, pending), 1 when nothing is to be done; task polls come on
    top. n changes that wait together cost 1 write. With k bad ones among them the others still come true: at most
    2 + k writes when the server names the bad ones, else at most 2 + 2 * k * ceil(log2 n); 2 more for each slot that
    QEMU itself refuses, 1 more for each unplug that is tried again.

    A caller that is cancelled hurts nobody: a write that was sent is followed to its end.
    """

    def __init__(
        self,
        region: str,
        vms: Vms,
        tasks: Tasks,
        locator: Locator,
        inventory: Inventory,
        drives: DriveIndex,
        clock: Clock,
        metrics: PveMetrics,
    ) -> None:
        self._region = region
        self._tools = Tools(region, vms, tasks, locator, inventory, drives, clock, self._catch_up)
        self._missed: set[str] = set()
        self._metrics = metrics
        self._writers: dict[int, VmBatches] = {}
        self._closed = False

    async def attach(
        self,
        vmid: int,
        volid: str,
        options: Mapping[str, str],
        *,
        hosts: frozenset[str] | None = None,
        system_uuid: str = "",
    ) -> Attachment:
        """Make a volume a live drive of a VM, in the lowest free slot of scsi1..30.

        Answers only when GET pending shows the drive there with nothing waiting. A volume that is a live drive already
        stays as it is. Whether another VM has it is not looked at (`DriveIndex.holders` is the caller's to ask).
        `hosts` are those that have this volume (None: all): a VM that has moved to another one must not get the volume
        of the same name there. `system_uuid` is what the guest that is meant reports ("": not known): an id may have
        passed to a new VM.

        Raises NotFound (no such VM, proved; or no such volume), ResourceExhausted (no free slot), FailedPrecondition
        (the VM's hotplug or scsihw setting, named; or the storage is not on its host), Denied, Pending (locked, or an
        earlier change still runs), Unavailable. Needs VM.Audit and VM.Config.Disk on the VM, and the volume's rights.
        """
        if volid.partition(":")[2] == "" or "," in volid:
            raise ValueError(f"not a volume id: {volid!r}")
        with self._metrics.operation("attachVolume"):
            seen = await self._writer(vmid).fulfil(Wish(True, volid, dict(options), hosts, system_uuid))
        key = seen.keys[0]
        drive = seen.config.drives()[key]
        return Attachment(vmid, seen.node, key, scsi_slot(key) or 0, drive, already=not seen.written)

    async def detach(self, vmid: int, volid: str) -> bool:
        """Take a volume from a VM; False when it was not there, or when the VM is proved not to exist.

        Answers only when GET pending shows no trace of it; `unusedN` entries do not count. An unplug that the guest
        does not finish is tried once more, then raises HotplugFailed (Unavailable) with Proxmox VE's text, and its slot
        is not filled again until the VM was restarted or its guest was seen to answer.

        Raises FailedPrecondition (hotplug setting, protection), Denied, Pending, Unavailable. Needs VM.Audit and
        VM.Config.Disk on the VM.
        """
        with self._metrics.operation("detachVolume"):
            return (await self._writer(vmid).fulfil(Wish(attach=False, volid=volid))).written

    async def recall(self, node: str) -> None:
        """Learn from a host's task list which slots must rest, as a former process knew from its own failed unplugs.

        One request; needed once for each host, before the first change. `recall_later` for a host that does not answer.
        """
        clock = self._tools.clock
        for task in await self._tools.tasks.failed(node, "qmconfig"):
            if not isinstance(task.error, HotplugFailed) or not task.upid.id.isdigit():
                continue
            ago_s = max(0.0, clock.now().timestamp() - task.ended_at)
            for key, why in task.error.texts.items():
                if scsi_slot(key) is not None and "hot-unplugging" in why:
                    self._writer(int(task.upid.id)).let_rest(key, clock.monotonic() - ago_s)

    def recall_later(self, node: str) -> None:
        """`recall` before the next change of a VM on this host, which cannot be asked now."""
        self._missed.add(node)

    async def _catch_up(self, node: str) -> None:
        if node in self._missed:
            with purpose("background"):
                await self.recall(node)
            self._missed.discard(node)

    async def aclose(self, drain_s: float | None = None) -> None:
        """Refuse new changes and give those under way `drain_s` seconds (None: as long as they take).

        What is left behind then goes on in Proxmox VE, and its callers get no answer.
        """
        self._closed = True
        writers = tuple(self._writers.values())
        try:
            async with asyncio.timeout(drain_s):
                await asyncio.gather(*(writer.wait_idle() for writer in writers))
        except TimeoutError:
            _log.warning("config changes under way are left behind", extra={"region": self._region})
        await asyncio.gather(*(writer.stop() for writer in writers))

    def _writer(self, vmid: int) -> VmBatches:
        if self._closed:
            raise Unavailable("shutting down")
        self._writers = {known: writer for known, writer in self._writers.items() if known == vmid or writer.in_use}
        return self._writers.setdefault(vmid, VmBatches(vmid, self._tools))
