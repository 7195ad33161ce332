"""skeleton"""

from dataclasses import dataclass
from typing import Literal

from appkit.clock import Clock
from pvekit.cluster import Cluster
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.vm_config import VmConfig
from pvekit.vms import Vms


@dataclass(frozen=True, slots=True)
class Holder:
    """A reference to a volume: `live` (the guest has it), `pending` (waits to be plugged), `unused` or `snapshot`.

    `key` is the config key, for snapshots `<snapshot>/<key>`. A live entry that waits to be deleted is still live.
    """

    vmid: int
    node: str
    key: str
    state: Literal["live", "pending", "unused", "snapshot"]


class DriveIndex:
    """Which VM's config, pending section, unusedN or snapshot refers to which volume."""

    def __init__(
        self, region: str, inventory: Inventory, locator: Locator, vms: Vms, cluster: Cluster, clock: Clock
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to read in the background."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop."""
        raise NotImplementedError

    def note(self, vmid: int, node: str, config: VmConfig) -> None:
        """A config that somebody has just read anyway."""
        raise NotImplementedError

    async def holders(
        self, volid: str, *, max_age_s: float = 60.0, nodes: frozenset[str] | None = None
    ) -> list[Holder]:
        """Every reference to a volume, none older than `max_age_s`; reads in the background what is.

        `nodes` restricts to VMs on hosts that can have the volume (local storages). Never a short list: Denied
        (VM.Audit) when the token cannot see every VM, Unavailable when a VM's config could not be read.
        """
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        """Whether every VM listed has been read at least once."""
        raise NotImplementedError

    def age_s(self) -> float:
        """Age of the oldest entry; infinity while not complete."""
        raise NotImplementedError
