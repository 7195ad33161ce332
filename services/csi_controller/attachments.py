"""Attaching a volume to a worker's VM and taking it away again.

Both ends are what the VM's config shows as live, with nothing waiting, never what was asked for. Must not write a VM's
config itself: pvekit's one writer per VM does, and coalesces.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appkit.errors import AlreadyExists, DriverError, FailedPrecondition, NotFound, Unavailable
from appkit.logs import get_logger
from csi_controller import guard
from csi_controller.parameters import drive_options
from csi_controller.regions import Regions
from csi_controller.whereabouts import Place
from csi_controller.workers import Workers, is_same_name
from csikit import contract
from csikit.handles import NodeId, VolumeHandle
from pvekit.drive_index import Holder
from pvekit.errors import VolumeNotFound
from pvekit.models import VmRef
from pvekit.presence import Absent, Present
from pvekit.vm_config_writer import Attachment

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """A live disk: the World Wide Name by which the guest finds it, and its SCSI slot."""

    wwn: str
    slot: int


class Attachments:
    """Publish and unpublish, of every region."""

    def __init__(self, regions: Regions, workers: Workers) -> None:
        self._regions = regions
        self._workers = workers

    async def publish(
        self, handle: VolumeHandle, node: NodeId, *, read_only: bool, context: Mapping[str, str]
    ) -> Published:
        """Make the volume a live disk of the node's VM: three foreground requests, one when it is there already.

        Raises NotFound (volume or VM proved absent), FailedPrecondition (attached elsewhere, out of reach),
        AlreadyExists (attached here, but read-only where it should not be, or the reverse), and what pvekit raises.
        """
        place = Place.of(self._regions, handle)
        vm = await self._get_vm(place, node)
        place.check_reach(vm.node, f"VM {vm.vmid} ({node.name})")
        await guard.check_free_for(place, vm.vmid)
        try:
            attachment = await place.region.writers.attach(
                vm.vmid,
                place.volid,
                _options(handle, context, read_only),
                hosts=place.vm_hosts,
                system_uuid=self._workers.find_system_uuid(node),
            )
        except VolumeNotFound:
            await self._check_moved(place, vm, node)
            await place.region.storage.info(await place.find_host(), place.volid)
            raise Unavailable(f"VM {vm.vmid} does not see volume {place.volid}, which exists; call again") from None
        return _published(place, attachment, read_only)

    async def unpublish(self, handle: VolumeHandle, node: NodeId | None) -> None:
        """Take the volume from the node's VM, or from every VM when no node is given. Done already is success.

        Success means: seen to be neither live nor waiting there, or the VM proved to be gone.
        """
        place = Place.of(self._regions, handle)
        for vmid in await self._vmids_to_free(place, node):
            found = await place.region.locator.find(vmid)
            if isinstance(found, Absent):
                _log.info("VM is gone, and its disks with it", extra={"vmid": vmid, "proof": found.proof})
                continue
            if not isinstance(found, Present):
                raise Unavailable(f"VM {vmid} cannot be found: {found.reason}")
            await place.region.writers.detach(vmid, place.volid)

    async def _get_vm(self, place: Place, node: NodeId) -> VmRef:
        vmid = await self._workers.get_vmid(node, place.region)
        found = await place.region.locator.find(vmid)
        if isinstance(found, Absent):
            raise NotFound(f"node {node}: VM {vmid} does not exist in region {place.region.name!r} ({found.proof})")
        if not isinstance(found, Present):
            raise Unavailable(f"node {node}: VM {vmid} cannot be found: {found.reason}")
        return found.value

    async def _check_moved(self, place: Place, vm: VmRef, node: NodeId) -> None:
        """The inventory may be seconds old: from a VM that has left the volume's host, the volume seems missing."""
        found = await place.region.locator.find(vm.vmid, fresh=True)
        if isinstance(found, Present):
            place.check_reach(found.value.node, f"VM {vm.vmid} ({node.name})")

    async def _vmids_to_free(self, place: Place, node: NodeId | None) -> list[int]:
        if node is None:
            return sorted({holder.vmid for holder in await guard.users(place)})
        if node.vmid is not None:
            # Not compared with the Node object, which may be gone: this exact volume in this VM is what must end.
            return [node.vmid]
        try:
            return [await self._workers.get_vmid(node, place.region)]
        except (NotFound, FailedPrecondition, Unavailable) as error:
            return self._unidentified(place, node, await guard.users(place), error)

    def _unidentified(self, place: Place, node: NodeId, holders: list[Holder], cause: DriverError) -> list[int]:
        """The node's VM is not known: who has the volume tells, if anybody does."""
        entries = {holder.vmid: place.region.inventory.vm(holder.vmid) for holder in holders}
        named = [
            vmid for vmid, vm in entries.items() if vm is not None and vm.name and is_same_name(vm.name, node.name)
        ]
        if holders and not named:
            raise FailedPrecondition(
                f"node {node} cannot be told apart ({cause}), and the volume is attached to "
                f"{guard.describe(place, holders)}; detach it there by hand if that is the node"
            ) from cause
        return named


def _options(handle: VolumeHandle, context: Mapping[str, str], read_only: bool) -> dict[str, str]:
    """The new drive's options; the disk's identity comes from the volume, never from the slot."""
    options = drive_options(context) | {"wwn": contract.wwn_of(handle), "serial": contract.serial_of(handle)}
    if read_only:
        options["ro"] = "1"
    return options


def _published(place: Place, attachment: Attachment, read_only: bool) -> Published:
    """What the config says, not what we would have written: a peer's disk keeps its slot-derived name."""
    drive = attachment.drive
    wwn = drive.options.get("wwn", "")
    if not wwn:
        raise FailedPrecondition(
            f"volume {place.volid} is attached to VM {attachment.vmid} as {attachment.key} without a WWN, by somebody "
            "else; the node could not find it: detach it there first"
        )
    is_read_only = drive.options.get("ro", "0") in {"1", "on", "yes", "true"}
    if is_read_only != read_only:
        state = {True: "read-only", False: "writable"}
        raise AlreadyExists(
            f"volume {place.volid} is attached to VM {attachment.vmid} as {attachment.key} and is "
            f"{state[is_read_only]}, not {state[read_only]} as asked; it must be detached first"
        )
    return Published(wwn, attachment.slot)
