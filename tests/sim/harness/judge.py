"""Whether a success is true, looked up in the simulated cluster's own state at the moment it is said.

What others did to the same VM while the call ran excuses a success that is no longer true; a fault never does.
"""

from csikit.contract import PUBLISH_DEVICE_PATH, wwn_from_device_path
from csikit.handles import parse_handle
from csikit.pb import csi_pb2
from tests.pvesim.world import World
from tests.sim.harness.ledger import Attachment, Claim, Ledger
from tests.sim.harness.truth import file_of, find_volume, places, places_of

# How old a guard's knowledge of what others did may be: 60 s for attaching, 10 s for deleting, and the time that
# reading every VM takes.
ATTACH_AGE_S = 90.0
DELETE_AGE_S = 40.0


def created(world: World, ledger: Ledger, claim: Claim, reply: csi_pb2.CreateVolumeResponse) -> None:
    """The volume exists, is as large as it says and as asked, and is the one that an earlier success named."""
    handle = parse_handle(reply.volume.volume_id)
    key = (handle.storage, handle.zone, handle.disk)
    volume = find_volume(world, key)
    if volume is None:
        return ledger.break_off(f"CreateVolume of {claim.name} answered OK, but {key} does not exist")
    if claim.volume is not None and volume is not claim.volume:
        return ledger.break_off(f"CreateVolume of {claim.name} answered {key}, another volume than {claim.key} before")
    if claim.zones and not claim.shared and handle.zone not in claim.zones:
        return ledger.break_off(f"CreateVolume of {claim.name} answered a volume on {handle.zone}, not {claim.zones}")
    said_bytes = reply.volume.capacity_bytes
    if volume.size_bytes < max(said_bytes, claim.size_bytes):
        return ledger.break_off(
            f"CreateVolume of {claim.name}: {volume.size_bytes} bytes exist, {said_bytes} said, {claim.size_bytes} due"
        )
    if claim.limit_bytes and said_bytes > claim.limit_bytes:
        return ledger.break_off(f"CreateVolume of {claim.name}: {said_bytes} bytes are over {claim.limit_bytes}")
    if volume.format != (claim.image_format or "raw"):
        return ledger.break_off(f"CreateVolume of {claim.name}: {volume.format}, not {claim.image_format}")
    if claim.volume is None:
        claim.volume, claim.key, claim.handle = volume, key, reply.volume.volume_id
        claim.held_bytes, claim.context = said_bytes, dict(reply.volume.volume_context)
    return None


def nothing_made(world: World, ledger: Ledger, claim: Claim, code: str) -> None:
    """An error after which the sidecar forgets the claim: nothing of that name may be left behind."""
    if claim.rights_missing:
        # A right that was taken between two attempts: what the first one made may then not be looked for.
        claim.unclear = True
        return
    for key in world.storages.volumes:
        if claim.name in key[2]:
            ledger.break_off(f"CreateVolume of {claim.name} failed for good ({code}), but {key} exists")


def published(
    world: World,
    ledger: Ledger,
    claim: Claim,
    attachment: Attachment,
    reply: csi_pb2.ControllerPublishVolumeResponse,
    began_at: float,
) -> None:
    """The guest has the disk under the name it was told; a VM that is off has it in its config."""
    vmid = attachment.vmid
    now_or_later = ledger.undisturbed_since(vmid, began_at)
    text = f"publish of {claim.name} to {vmid} answered OK, but "
    _check_alone(world, ledger, claim, vmid, began_at)
    vm = world.vms.get(vmid)
    if vm is None:
        if now_or_later:
            ledger.break_off(text + "there is no such VM")
        return
    if not now_or_later:
        return
    keys = [key for key, value in vm.conf.items() if file_of(value) == claim.volid and not key.startswith("unused")]
    if not keys or any(key in vm.pending_delete for key in keys):
        ledger.break_off(text + f"its config has the volume in {keys}, of which {sorted(vm.pending_delete)} shall go")
        return
    wwn = wwn_from_device_path(reply.publish_context[PUBLISH_DEVICE_PATH])
    if vm.running:
        plugged = [vm.plugged[key] for key in keys if key in vm.plugged]
        if not any(each.volid == claim.volid and each.wwn == wwn for each in plugged):
            ledger.break_off(text + f"its guest has no disk {wwn} of it: {plugged}")
            return
        if any(key in vm.stuck_controllers and (vmid, key) not in ledger.finished_by_hand for key in keys):
            ledger.break_off(text + f"in {keys}, whose controller the guest is about to let go of")
            return
    attachment.live = attachment.wanted


def _check_alone(world: World, ledger: Ledger, claim: Claim, vmid: int, began_at: float) -> None:
    """Nobody else had the volume for so long that it had to be known."""
    for place in places_of(world, claim.key):
        since = ledger.by_hand.get((place.vmid, claim.key))
        if place.vmid == vmid or since is None or place.where not in ("config", "guest"):
            continue
        host = world.vms[place.vmid].node
        if since + ATTACH_AGE_S < began_at and ledger.dark_at.get(host, -1.0) < since:
            ledger.break_off(
                f"publish of {claim.name} to {vmid} answered OK, but VM {place.vmid} had it as {place.key} for "
                f"{began_at - since:.0f} s"
            )


def unpublished(world: World, ledger: Ledger, claim: Claim, attachment: Attachment, began_at: float) -> None:
    """Neither guest nor config has the volume, and nothing waits."""
    vm = world.vms.get(attachment.vmid)
    if vm is None or ledger.by_hand.get((attachment.vmid, claim.key), -1.0) >= began_at - 10:
        return
    left = [
        place
        for place in places_of(world, claim.key)
        if place.vmid == attachment.vmid and place.where in ("config", "pending", "guest")
    ]
    if left:
        ledger.break_off(f"unpublish of {claim.name} from {attachment.vmid} answered OK, but it is there: {left}")


def grown(
    world: World,
    ledger: Ledger,
    claim: Claim,
    wanted_bytes: int,
    reply: csi_pb2.ControllerExpandVolumeResponse,
    began_at: float,
) -> None:
    """The volume is as large as it says, and as was asked."""
    volume = find_volume(world, claim.key)
    undisturbed = all(ledger.undisturbed_since(vmid, began_at) for vmid in claim.attachments)
    rolled_back = any(key == claim.key for _, key in ledger.by_hand)
    if volume is None or volume.size_bytes < max(wanted_bytes, reply.capacity_bytes):
        if undisturbed and not rolled_back:
            ledger.break_off(
                f"expansion of {claim.name} to {wanted_bytes} answered {reply.capacity_bytes}, but the volume has "
                f"{volume.size_bytes if volume else None}"
            )
        return
    if undisturbed and not rolled_back:
        claim.held_bytes = max(claim.held_bytes, reply.capacity_bytes)


def deleted(world: World, ledger: Ledger, claim: Claim, began_at: float) -> None:
    """It is gone, and nothing had it."""
    if find_volume(world, claim.key) is not None:
        ledger.break_off(f"DeleteVolume of {claim.name} answered OK, but {claim.key} exists")
    for place in places(world).get(claim.key, ()):
        since = ledger.by_hand.get((place.vmid, claim.key))
        if place.where == "snapshot":
            since = ledger.snapshot_at.get((place.vmid, place.key.partition("/")[0]), 0.0)
        if since is None or since + DELETE_AGE_S < began_at:
            ledger.break_off(f"DeleteVolume of {claim.name} answered OK under {place}")
