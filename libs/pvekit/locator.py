"""skeleton"""

from pvekit.cluster import Cluster
from pvekit.inventory import Inventory
from pvekit.models import VmRef
from pvekit.presence import Presence


class Locator:
    """Finds VMs of one region by id."""

    def __init__(self, region: str, inventory: Inventory, cluster: Cluster) -> None:
        raise NotImplementedError

    async def find(self, vmid: int, *, fresh: bool = False) -> Presence[VmRef]:
        """Where a VM is, from the inventory (no request); when it is missing there: proved absent, or Unknown.

        Raises Denied (VM.Audit on /vms/<id>) when the VM exists and the token may not see it. `fresh` reads the
        inventory anew first, for a caller who was told that the VM is not where it was.
        """
        raise NotImplementedError

    async def get(self, vmid: int, *, fresh: bool = False) -> VmRef:
        """`find`, with NotFound for Absent and Unavailable for Unknown."""
        raise NotImplementedError
