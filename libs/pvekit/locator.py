"""Where a VM is, and the proof that it is nowhere."""

from appkit.errors import Denied, NotFound, Unavailable
from pvekit.cluster import Cluster
from pvekit.errors import PveDenied, PveUnknownOutcome, PveUnreachable, ServerFailure, VmNotHere
from pvekit.inventory import Inventory
from pvekit.models import VmRef
from pvekit.presence import Absent, Presence, Present, Unknown
from pvekit.quorum import Quorum
from pvekit.vms import Vms


class Locator:
    """Finds VMs of one region by id."""

    def __init__(self, region: str, inventory: Inventory, cluster: Cluster, vms: Vms, quorum: Quorum) -> None:
        self._region = region
        self._inventory = inventory
        self._cluster = cluster
        self._vms = vms
        self._quorum = quorum

    async def find(self, vmid: int, *, fresh: bool = False) -> Presence[VmRef]:
        """Where a VM is, from the inventory (no request); when it is missing there, 3 to 5 requests: absent or unknown.

        Absent is proved by `nextid?vmid=`, which sees every guest whatever the token's rights, by quorum asked for
        after that (a host without it answers from an old configuration), and where the VM's last known host answers,
        by that host not having its configuration. The configuration is cluster-wide: a dark host takes no proof away.
        Raises Denied (VM.Audit on /vms/<id>) when the VM exists and the token may not see it. `fresh` reads the
        inventory anew first, for a caller who was told that the VM is not where it was.
        """
        found = None if fresh else self._listed(vmid)
        if found is not None:
            return found
        try:
            await self._inventory.refresh()
            return self._listed(vmid) or await self._prove(vmid)
        except (PveUnreachable, PveUnknownOutcome, ServerFailure) as error:
            return Unknown(f"region {self._region} does not answer: {error}")

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

    async def _prove(self, vmid: int) -> Absent | Unknown:
        if not await self._cluster.nextid_free(vmid):
            raise Denied(
                f"VM {vmid} exists in region {self._region}, but the token may not see it: "
                f"grant VM.Audit on /vms/{vmid}",
                privilege="VM.Audit",
                path=f"/vms/{vmid}",
            )
        quorum = await self._quorum.look()
        if not quorum.quorate:
            return Unknown(f"region {self._region} has no quorum, and so no proof: {quorum.basis}")
        host = self._inventory.last_host(vmid)
        has_it, told = await self._ask_host(host, vmid)
        if has_it:
            return Unknown(f"nextid calls id {vmid} free in region {self._region}, but {told}")
        return Absent(f"nextid calls id {vmid} free in region {self._region}; {quorum.basis}; {told}")

    async def _ask_host(self, host: str | None, vmid: int) -> tuple[bool, str]:
        """Whether the VM's last known host has it, and what it said. One that is silent is not waited for."""
        if host is None:
            return False, "no host was ever seen to have it"
        if self._inventory.silent_s(host):
            return False, f"its last host {host} is not online"
        try:
            await self._vms.config(host, vmid, current=True)
        except VmNotHere:
            return False, f"its last host {host} does not have it"
        except PveDenied as error:
            if error.status == 401:
                raise
            return False, f"its last host {host} may not be asked"
        except (PveUnreachable, PveUnknownOutcome):
            return False, f"its last host {host} does not answer"
        return True, f"its last host {host} has it"
