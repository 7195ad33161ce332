"""Where a VM is, and the proof that it is nowhere."""

from appkit.errors import Denied, NotFound, Unavailable
from pvekit.cluster import Cluster
from pvekit.errors import PveUnknownOutcome, PveUnreachable, ServerFailure
from pvekit.inventory import Inventory
from pvekit.models import VmRef
from pvekit.presence import Absent, Presence, Present, Unknown


class Locator:
    """Finds VMs of one region by id."""

    def __init__(self, region: str, inventory: Inventory, cluster: Cluster) -> None:
        self._region = region
        self._inventory = inventory
        self._cluster = cluster

    async def find(self, vmid: int, *, fresh: bool = False) -> Presence[VmRef]:
        """Where a VM is, from the inventory (no request); when it is missing there, 2 requests: absent, or not known.

        Absent is proved by `nextid?vmid=`, which sees every guest whatever the token's rights, asked of a cluster of
        which most hosts are online (a host that lost its quorum answers from an old configuration). Raises Denied
        (VM.Audit on /vms/<id>) when the VM exists and the token may not see it. `fresh` reads the inventory anew
        first, for a caller who was told that the VM is not where it was.
        """
        found = None if fresh else self._listed(vmid)
        if found is not None:
            return found
        try:
            await self._inventory.refresh()
            found = self._listed(vmid)
            if found is not None:
                return found
            free = await self._cluster.nextid_free(vmid)
        except (PveUnreachable, PveUnknownOutcome, ServerFailure) as error:
            return Unknown(f"region {self._region} does not answer: {error}")
        if not free:
            raise Denied(
                f"VM {vmid} exists in region {self._region}, but the token may not see it: "
                f"grant VM.Audit on /vms/{vmid}",
                privilege="VM.Audit",
                path=f"/vms/{vmid}",
            )
        nodes = self._inventory.nodes()
        online = sum(node.online for node in nodes)
        if not self._inventory.has_majority:
            return Unknown(
                f"only {online} of {len(nodes)} hosts of region {self._region} are online: no quorum, no proof"
            )
        return Absent(f"nextid calls id {vmid} free in region {self._region}, {online} of {len(nodes)} hosts online")

    async def get(self, vmid: int, *, fresh: bool = False) -> VmRef:
        """`find`, with NotFound for Absent and Unavailable for Unknown."""
        match await self.find(vmid, fresh=fresh):
            case Present(ref):
                return ref
            case Absent(proof):
                raise NotFound(f"there is no VM {vmid} in region {self._region} ({proof})")
            case Unknown(reason):
                raise Unavailable(f"whether VM {vmid} exists cannot be known: {reason}")

    def _listed(self, vmid: int) -> Presence[VmRef] | None:
        entry = self._inventory.vm(vmid)
        if entry is None:
            return None
        if entry.type != "qemu":
            return Absent(f"id {vmid} is a container in region {self._region}, and ids are unique")
        return Present(VmRef(self._region, entry.node, vmid, entry.name))
