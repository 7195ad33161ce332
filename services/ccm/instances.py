"""Finds a Node's VM: by providerID, by the instance-id annotation, or by name; and always proves it by the SMBIOS UUID.

The VM list comes from the inventories (no request); one configuration is read for the VM that is found. Answers an
outcome with a reason a user can act on; never writes, never decides what to do about a Node. Absence from a list is
not absence: see `ccm.outcomes`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appkit.clock import Clock
from appkit.errors import Denied, DriverError, InvalidRequest, NotFound, Unavailable
from ccm.facts import InstanceFacts, facts_for
from ccm.matching import Machine, candidate_groups
from ccm.outcomes import Ambiguous, Found, NoInstance, Outcome, Unreachable
from ccm.smbios import same_machine
from ccm.uuid_memory import UuidMemory
from ccm.visibility import Visibility
from kubekit.nodes import NodeIdentity
from pvekit.clusters import Clusters, Region
from pvekit.errors import VmNotHere
from pvekit.inventory import Trust
from pvekit.metrics import PveMetrics
from pvekit.models import VmRef
from pvekit.presence import Absent, Unknown
from pvekit.provider_id import ProviderId, parse_provider_id
from pvekit.purpose import purpose


@dataclass
class _Search:
    """What a search by name has come across so far."""

    found: list[tuple[Machine, InstanceFacts]]
    others: list[str]
    """VMs whose name fits and whose UUID does not."""
    doubts: list[str]
    """What could not be read, and hence may hide the VM, or a second one."""


class InstanceFinder:
    """Answers "which VM is this Node?" over all regions."""

    def __init__(self, clusters: Clusters, visibility: Visibility, metrics: PveMetrics, clock: Clock) -> None:
        self._clusters = clusters
        self._visibility = visibility
        self._metrics = metrics
        self._clock = clock
        self._memory = UuidMemory()

    async def find(self, identity: NodeIdentity) -> Outcome:
        """The Node's VM. Raises nothing of Proxmox's: what went wrong there is in the outcome's reason."""
        if not identity.system_uuid:
            return NoInstance("the Node reports no systemUUID yet, so no VM can be compared with it")
        with self._metrics.operation("getInstanceInfo"):
            try:
                where = self._written_identity(identity)
                if where.vmid is not None:
                    return await self._by_id(where.region, where.vmid, identity)
                return await self._by_name(identity, any_name=where.uuid is not None)
            except Denied as error:
                return NoInstance(str(error))
            except Unavailable as error:
                return Unreachable(str(error))

    def _written_identity(self, identity: NodeIdentity) -> ProviderId:
        """What the Node itself says: providerID, else the annotation with a region; empty when neither names a VM."""
        written = ProviderId()
        if identity.provider_id:
            try:
                written = parse_provider_id(identity.provider_id)
            except InvalidRequest:
                # Ours by its scheme, but no form that was ever written; as in the Go program, the other ways decide.
                written = ProviderId()
        if written.vmid is not None and written.region:
            return written
        if identity.instance_id_annotation.isdecimal() and identity.region:
            return ProviderId(region=identity.region, vmid=int(identity.instance_id_annotation))
        return ProviderId(uuid=written.uuid)

    async def _by_id(self, region_name: str, vmid: int, identity: NodeIdentity) -> Outcome:
        try:
            region = self._clusters.get(region_name)
        except NotFound as error:
            return NoInstance(f"the Node belongs to VM {vmid} in region {region_name!r}, but {error}")
        presence = await region.locator.find(vmid)
        if isinstance(presence, Absent):
            return NoInstance(f"VM {vmid} does not exist in region {region_name}: {presence.proof}")
        if isinstance(presence, Unknown):
            return Unreachable(f"VM {vmid} in region {region_name}: {presence.reason}")
        facts = await self._read(region, presence.value)
        if facts is None:
            return Unreachable(f"VM {vmid} in region {region_name} is being moved or destroyed")
        if not same_machine(identity.system_uuid, facts.uuid):
            return NoInstance(
                f"the Node belongs to VM {vmid} in region {region_name}, but that VM has {_uuid_text(facts.uuid)} "
                f"and the Node reports systemUUID {identity.system_uuid}: it is another machine"
            )
        return Found(facts)

    async def _by_name(self, identity: NodeIdentity, *, any_name: bool) -> Outcome:
        """`any_name`: the Node carries a UUID as its providerID, which outranks the name; all VMs are compared last."""
        machines, silent = self._machines()
        search = _Search([], [], list(silent))
        tried: set[Machine] = set()
        for group in candidate_groups(identity.name, machines):
            tried.update(group)
            await self._compare(group, identity, search)
            if search.found:
                return _choose(search)
        if any_name:
            with purpose("background"):
                await self._compare([each for each in machines if each not in tried], identity, search)
            if search.found:
                return _choose(search)
        nameless = [str(each) for each in machines if not each.entry.name]
        if nameless:
            search.doubts.append(f"not named yet, or on a silent host: {_listed(nameless)}")
        if search.doubts:
            others = [f"apart from that, {_not_found(identity, machines, search)}"] if machines else []
            return Unreachable("; ".join(search.doubts + others))
        limits = [await self._visibility.limits(region) for region in self._clusters.regions()]
        return NoInstance("; ".join([_not_found(identity, machines, search), *filter(None, limits)]))

    def _machines(self) -> tuple[list[Machine], list[str]]:
        """Every VM of every region, templates excluded, and a text for each region that does not answer now."""
        machines, silent = [], []
        for region in self._clusters.regions():
            inventory = region.inventory
            if inventory.trouble is not None:
                silent.append(f"region {region.name} does not answer: {inventory.trouble}")
            elif inventory.snapshot.trust is Trust.NONE:
                silent.append(f"region {region.name} has not answered yet")
            machines += [Machine(region.name, entry) for entry in inventory.vms() if not entry.template]
        return machines, silent

    async def _compare(self, machines: Sequence[Machine], identity: NodeIdentity, search: _Search) -> None:
        await asyncio.gather(*(self._compare_one(machine, identity, search) for machine in machines))

    async def _compare_one(self, machine: Machine, identity: NodeIdentity, search: _Search) -> None:
        known = self._memory.recall(machine, self._clock.monotonic())
        if known is not None and not same_machine(identity.system_uuid, known):
            search.others.append(f"{machine} has {_uuid_text(known)}")
            return
        try:
            facts = await self._read(self._clusters.get(machine.region), machine.ref)
        except DriverError as error:
            search.doubts.append(f"{machine}: {error}")
            return
        if facts is None:
            return
        self._memory.note(machine, facts.uuid, self._clock.monotonic())
        if same_machine(identity.system_uuid, facts.uuid):
            search.found.append((machine, facts))
        else:
            search.others.append(f"{machine} has {_uuid_text(facts.uuid)}")

    async def _read(self, region: Region, ref: VmRef) -> InstanceFacts | None:
        """The facts of the VM; None when it is on no host now. Looks again, once, when it has moved."""
        try:
            config = await self._config(region, ref)
        except VmNotHere:
            presence = await region.locator.find(ref.vmid, fresh=True)
            if isinstance(presence, Absent):
                return None
            if isinstance(presence, Unknown):
                raise Unavailable(presence.reason) from None
            ref = presence.value
            config = await self._config(region, ref)
        return facts_for(region=region.name, vmid=ref.vmid, name=ref.name or "", host=ref.node, config=config)

    async def _config(self, region: Region, ref: VmRef) -> dict[str, Any]:
        # `current`: what the guest was started with; without it Proxmox VE shows what it will have after the next
        # start.
        with self._metrics.operation("getVMConfig"):
            return await region.vms.config(ref.node, ref.vmid, current=True)


def _choose(search: _Search) -> Outcome:
    if len(search.found) > 1:
        both = _listed([str(machine) for machine, _ in search.found])
        return Ambiguous(
            f"more than one VM has the Node's name and SMBIOS UUID: {both}; give all but one a UUID of its own, "
            "or set the Node's providerID"
        )
    machine, facts = search.found[0]
    if search.doubts and not machine.running:
        # The Node's kubelet runs. A copy that does not run is not it, and the one that runs may be where we cannot
        # look.
        return Unreachable(f"{machine} fits but is not running; could not be told: {'; '.join(search.doubts)}")
    return Found(facts)


def _not_found(identity: NodeIdentity, machines: Sequence[Machine], search: _Search) -> str:
    if search.others:
        return f"the Node reports systemUUID {identity.system_uuid}, but {_listed(search.others)}"
    seen = f"none of the {len(machines)} VMs that the token may see"
    return f"{seen} is named {identity.name!r} or has a name that begins with it"


def _uuid_text(uuid: str) -> str:
    return f"SMBIOS UUID {uuid}" if uuid else "no SMBIOS UUID"


def _listed(texts: Sequence[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
