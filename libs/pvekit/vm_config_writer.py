"""skeleton"""

from collections.abc import Mapping
from dataclasses import dataclass

from appkit.clock import Clock
from pvekit.drive_index import DriveIndex
from pvekit.drives import Drive
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.metrics import PveMetrics
from pvekit.tasks import Tasks
from pvekit.vms import Vms


@dataclass(frozen=True, slots=True)
class Attachment:
    """A volume that was seen live in a VM: `key` "scsi7", `slot` 7, `drive` as the config has it.

    `already` says that nothing had to be written. The drive's options are those it was attached with.
    """

    vmid: int
    node: str
    key: str
    slot: int
    drive: Drive
    already: bool


class VmConfigWriters:
    """Attaches and detaches volumes; one writer per VM, which serialises and coalesces."""

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
        raise NotImplementedError

    async def attach(self, vmid: int, volid: str, options: Mapping[str, str]) -> Attachment:
        """Make a volume a live drive of a VM. 3 requests, 1 when it is one already."""
        raise NotImplementedError

    async def detach(self, vmid: int, volid: str) -> bool:
        """Take a volume from a VM; False when it (or the VM, proved) was not there. 3 requests, 1 when already gone."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Wait for writes under way; refuse new ones."""
        raise NotImplementedError
