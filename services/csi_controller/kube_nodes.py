"""The Kubernetes side of `workers`: Nodes from an informer's copy. Must not decide what a Node means."""

from contextlib import suppress

from appkit.errors import InvalidRequest, NotFound, Unavailable
from csi_controller.workers import KubeNode
from kubekit.informer import Informer
from kubekit.nodes import identity_of
from pvekit.provider_id import parse_provider_id

NODES_PATH = "/api/v1/nodes"


class InformerNodes:
    """`workers.KubeNodes` over an informer of /api/v1/nodes."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer

    def get(self, name: str) -> KubeNode:
        """See `workers.KubeNodes.get`."""
        node = self._informer.get(name)
        if node is None:
            self._require_copy()
            raise NotFound(f"Kubernetes has no Node {name!r}")
        identity = identity_of(node)
        return KubeNode(
            name=identity.name,
            provider_id=identity.provider_id,
            system_uuid=identity.system_uuid,
            instance_id=identity.instance_id_annotation,
            region=identity.region,
        )

    def vmids(self, region: str) -> list[int]:
        """The VMs of a region that the Nodes' providerIDs name. Raises Unavailable while the copy is not complete."""
        self._require_copy()
        found = []
        for node in self._informer.list():
            with suppress(InvalidRequest):
                provider = parse_provider_id(identity_of(node).provider_id)
                if provider.vmid is not None and provider.region == region:
                    found.append(provider.vmid)
        return found

    def _require_copy(self) -> None:
        if self._informer.age_s() == float("inf"):
            raise Unavailable("the Nodes of the Kubernetes cluster are not read yet")
