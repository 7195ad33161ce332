"""From the node id of a publish call to the VM that runs the worker.

The same VM id exists in several clusters, and a VM that was made anew keeps a dead one's id, so an id alone is not
believed: the Kubernetes Node's providerID decides, and without it the VM's name must fit the node's. Must not decide
that a VM is gone; `pvekit.locator` proves that.
"""

from dataclasses import dataclass
from typing import Protocol

from appkit.errors import DriverError, FailedPrecondition, InvalidRequest, NotFound, Unavailable
from appkit.logs import get_logger
from csi_controller.regions import Regions
from csikit.handles import NodeId
from pvekit.clusters import Region
from pvekit.provider_id import parse_provider_id

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KubeNode:
    """What a Kubernetes Node says of its machine; "" where it says nothing."""

    name: str
    provider_id: str = ""
    system_uuid: str = ""
    instance_id: str = ""
    region: str = ""


class KubeNodes(Protocol):
    """The Nodes of the Kubernetes cluster, from a local copy. A Node may be missing while its machine still runs."""

    def get(self, name: str) -> KubeNode:
        """Raises NotFound when Kubernetes has no such Node, Unavailable while the copy is not complete."""


class Workers:
    """Finds VMs of workers. `nodes` None: there is no Kubernetes to ask (no kubeconfig)."""

    def __init__(self, regions: Regions, nodes: KubeNodes | None) -> None:
        self._regions = regions
        self._nodes = nodes
        self._uuids: dict[tuple[str, str], tuple[int, str | None]] = {}

    async def get_vmid(self, node: NodeId, region: Region) -> int:
        """The VM's id in `region`, which is the volume's.

        Raises FailedPrecondition when the node is a VM of another region or contradicts itself, NotFound when
        Kubernetes has no such Node, Unavailable when nothing identifies the VM yet.
        """
        missing: NotFound | None = None
        known: int | None = None
        if self._nodes is not None:
            try:
                known = await self._from_kubernetes(self._nodes.get(node.name), region)
            except NotFound as error:
                missing = error
        if known is not None:
            if node.vmid is not None and node.vmid != known:
                raise FailedPrecondition(
                    f"node {node.name} registered as VM {node.vmid}, its Node object names VM {known}; restart the "
                    "node service there, or correct providerID"
                )
            return known
        if node.vmid is not None:
            self._check_name(node, node.vmid, region)
            return node.vmid
        if missing is not None:
            raise missing
        return self._by_name(node.name, region)

    def find_system_uuid(self, node: NodeId) -> str:
        """What the node's guest reported as its machine's UUID when it registered; "" when that is not known."""
        if self._nodes is None:
            return ""
        try:
            return self._nodes.get(node.name).system_uuid
        except NotFound:
            return ""

    async def _from_kubernetes(self, kube: KubeNode, region: Region) -> int | None:
        """By providerID, then the instance-id annotation, then the SMBIOS uuid."""
        uuid = kube.system_uuid
        try:
            provider = parse_provider_id(kube.provider_id)
        except InvalidRequest:
            pass  # empty, or another cloud's: k3s and others write their own
        else:
            if provider.vmid is not None:
                _check_region(kube.name, provider.region, region)
                return provider.vmid
            uuid = provider.uuid or uuid
        if kube.instance_id.isascii() and kube.instance_id.isdigit():
            _check_region(kube.name, kube.region, region)
            return int(kube.instance_id)
        if not uuid:
            return None
        return await self._by_uuid(uuid, kube.name, region)

    async def _by_uuid(self, uuid: str, name: str, region: Region) -> int | None:
        """The VM with this SMBIOS uuid, those of a fitting name first; one request for each VM looked at.

        A VM that cannot be read is passed over: the one that is sought may still be found. What was found is remembered
        for as long as the VM keeps its name.
        """
        wanted = (region.name, uuid.lower())
        vmid, known_as = self._uuids.get(wanted, (0, None))
        if (entry := region.inventory.vm(vmid)) is not None and entry.name == known_as:
            return vmid
        vms = [vm for vm in region.inventory.vms() if not vm.template]
        for vm in sorted(vms, key=lambda vm: not is_same_name(vm.name or "", name)):
            try:
                config = await region.drives.read(vm.node, vm.vmid)
            except DriverError as error:
                _log.info("VM passed over in the search by UUID", extra={"vmid": vm.vmid, "why": str(error)})
                continue
            if (config.smbios_uuid or "").lower() == uuid.lower():
                self._uuids[wanted] = (vm.vmid, vm.name)
                return vm.vmid
        return None

    def _check_name(self, node: NodeId, vmid: int, region: Region) -> None:
        entry = region.inventory.vm(vmid)
        if entry is None:
            return  # the locator finds out what that means
        if entry.name is None:
            if len(self._regions.all()) > 1:
                raise Unavailable(f"the name of VM {vmid} in region {region.name!r} is not known yet")
            return
        if not is_same_name(entry.name, node.name):
            raise FailedPrecondition(
                f"node {node.name} says it is VM {vmid}, but VM {vmid} of region {region.name!r} is named {entry.name}"
                "; give the Node a providerID (the cloud-controller-manager does), or name the VM like the node"
            )

    def _by_name(self, name: str, region: Region) -> int:
        found = [entry for entry in region.inventory.vms() if entry.name and is_same_name(entry.name, name)]
        if len(found) > 1:
            listed = ", ".join(str(entry.vmid) for entry in found)
            raise FailedPrecondition(f"VMs {listed} of region {region.name!r} all have the name of node {name}")
        if not found:
            raise Unavailable(
                f"no VM of region {region.name!r} can be told to be node {name}: its node id carries no VM id, the "
                "Node has no usable providerID or system UUID, and no visible VM has its name"
            )
        return found[0].vmid


def is_same_name(vm_name: str, node_name: str) -> bool:
    """Whether a VM's name fits a node's: equal, or one is the other with a domain; without case."""
    vm, node = vm_name.lower(), node_name.lower()
    return vm == node or vm.startswith(f"{node}.") or node.startswith(f"{vm}.")


def _check_region(name: str, said: str, region: Region) -> None:
    if said and said != region.name:
        raise FailedPrecondition(f"node {name} is a VM of region {said!r}, the volume is in region {region.name!r}")
