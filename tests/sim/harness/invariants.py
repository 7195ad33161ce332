"""What must hold at every moment, looked up in the true state of the simulated cluster. Reads only."""

from math import inf

from kubekit.nodes import UNINITIALIZED_TAINT
from tests.kubesim import Cluster
from tests.pvesim.world import World
from tests.sim.harness.ledger import Claim, Ledger, VolumeKey
from tests.sim.harness.stage import OWNER, REGION, VMIDS, node_name
from tests.sim.harness.truth import Place, file_of, find_volume, places

_HELD = ("config", "pending", "guest")


def check(world: World, kube: Cluster, ledger: Ledger, now: float) -> None:
    """Note every broken invariant in the ledger."""
    held = {
        key: in_use
        for key, found in places(world).items()
        if (in_use := [place for place in found if place.where in _HELD])
    }
    _forget_hands(ledger, held)
    claims = {claim.key: claim for claim in ledger.claims if claim.handle}
    for key, found in held.items():
        _check_holders(world, ledger, key, found, claims.get(key))
    for claim in ledger.claims:
        if claim.phase == "bound":
            _check_kept(world, ledger, claim)
    _check_volumes(world, ledger)
    _check_foreign(world, ledger)
    _check_nodes(world, kube, ledger)


def _forget_hands(ledger: Ledger, held: dict[VolumeKey, list[Place]]) -> None:
    for (vmid, key), since in list(ledger.by_hand.items()):
        if since < inf and not any(place.vmid == vmid for place in held.get(key, ())):
            del ledger.by_hand[vmid, key]


def _check_holders(world: World, ledger: Ledger, key: VolumeKey, found: list[Place], claim: Claim | None) -> None:
    """Only where the orchestrator wanted it, in one VM, and backed by the volume; but for what was done by hand."""
    excused = {vmid for vmid, which in ledger.by_hand if which == key}
    driver_made = sorted({place.vmid for place in found} - excused)
    if not driver_made:
        return
    if claim is None:
        ledger.break_off(f"{key} of no claim is attached: {found}")
        return
    for vmid in driver_made:
        if vmid not in claim.attachments:
            ledger.break_off(f"{claim.name} is in VM {vmid}, where nobody wants it: {found}")
    if len(driver_made) > 1:
        ledger.break_off(f"{claim.name} is in two VMs: {found}")
    slots = {place.key for place in found if place.vmid == driver_made[0] and place.where == "guest"}
    if len(slots) > 1:
        ledger.break_off(f"{claim.name} is twice in VM {driver_made[0]}: {found}")
    if find_volume(world, key) is None:
        ledger.break_off(f"{claim.name} is attached without being there: {found}")


def _check_kept(world: World, ledger: Ledger, claim: Claim) -> None:
    """A volume that was created and not deleted is there, whole; a disk that was published stays."""
    live = [each for each in claim.attachments.values() if each.live]
    if claim.deleting and not live:
        return
    volume = find_volume(world, claim.key)
    if volume is None or volume is not claim.volume:
        ledger.break_off(
            f"the volume of {claim.name}, {claim.key}, is lost" + (" and another in its place" if volume else "")
        )
        return
    rolled_back = any(key == claim.key for _, key in ledger.by_hand)
    if volume.size_bytes < claim.held_bytes and not rolled_back:
        ledger.break_off(f"the volume of {claim.name} has {volume.size_bytes} bytes, {claim.held_bytes} were promised")
    for attachment in live:
        vm = world.vms.get(attachment.vmid)
        keys = [key for key, value in vm.conf.items() if file_of(value) == claim.volid] if vm is not None else []
        in_guest = vm is not None and any(key in vm.plugged and vm.plugged[key].volid == claim.volid for key in keys)
        if vm is None or not keys or (vm.running and not in_guest):
            ledger.break_off(f"{claim.name} was taken from VM {attachment.vmid} although nobody asked for it: {keys}")


def _check_volumes(world: World, ledger: Ledger) -> None:
    """One volume for each claim that may have one, none beside."""
    known = {claim.name: claim for claim in ledger.claims}
    seen: dict[str, VolumeKey] = {}
    for key, volume in world.storages.volumes.items():
        if volume.owner != OWNER:
            continue
        name = key[2].rpartition("/")[2].removeprefix(f"vm-{OWNER}-").partition(".")[0]
        claim = known.get(name)
        if claim is None or not claim.begun:
            ledger.break_off(f"{key} belongs to no claim")
        elif claim.phase == "gone":
            ledger.break_off(f"{key} is there although {name} is gone")
        elif name in seen:
            ledger.break_off(f"{name} has two volumes, {seen[name]} and {key}")
        seen[name] = key


def _check_foreign(world: World, ledger: Ledger) -> None:
    for (vmid, key), volid in list(ledger.foreign.items()):
        vm = world.vms.get(vmid)
        if vm is None:
            del ledger.foreign[vmid, key]  # destroyed with its owner
            continue
        in_guest = not vm.running or (key in vm.plugged and vm.plugged[key].volid == volid)
        # On its way to another host a VM's own disk is there before the VM is.
        exists = any(volume.volid == volid for volume in world.storages.volumes.values())
        if file_of(vm.conf.get(key, "")) != volid or not in_guest or not exists:
            ledger.break_off(
                f"foreign disk {volid} is not in {key} of VM {vmid} any more: config {vm.conf.get(key)!r}, "
                f"guest {vm.plugged.get(key)}, exists: {exists}"
            )


def _check_nodes(world: World, kube: Cluster, ledger: Ledger) -> None:
    """No Node of a VM that exists was deleted, and each providerID names the VM with the Node's UUID."""
    names = set()
    for node in kube.items("nodes"):
        name = node["metadata"]["name"]
        names.add(name)
        provider_id = node["spec"].get("providerID")
        if not provider_id:
            continue
        vm = world.vms.get(int(provider_id.rpartition("/")[2]))
        uuid = node["status"]["nodeInfo"]["systemUUID"]
        if provider_id != f"proxmox://{REGION}/{100 + int(name.rpartition('-')[2])}":
            ledger.break_off(f"Node {name} has providerID {provider_id}")
        if vm is not None and f"uuid={uuid}" != vm.conf.get("smbios1", f"uuid={uuid}"):
            # Only a Node that is older than its VM may be wrong, and it is deleted before the new one registers.
            ledger.break_off(f"Node {name} with UUID {uuid} has providerID {provider_id} of another VM")
    for vmid in VMIDS:
        if (
            vmid in world.vms
            and world.vms[vmid].running
            and node_name(vmid) not in names
            and vmid not in ledger.nodeless
        ):
            ledger.break_off(f"Node {node_name(vmid)} is gone, and its VM is not")


def nodes_waiting(kube: Cluster) -> list[str]:
    """Nodes that are not initialised."""
    return [
        node["metadata"]["name"]
        for node in kube.items("nodes")
        if not node["spec"].get("providerID")
        or any(taint["key"] == UNINITIALIZED_TAINT for taint in node["spec"].get("taints") or [])
    ]
