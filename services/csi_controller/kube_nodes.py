"""The Kubernetes side of `workers`: Nodes from an informer's copy. Must not decide what a Node means."""

from appkit.errors import NotFound, Unavailable
from csi_controller.workers import KubeNode
from kubekit.informer import Informer
from kubekit.nodes import identity_of

NODES_PATH = "/api/v1/nodes"


class InformerNodes:
    """`workers.KubeNodes` over an informer of /api/v1/nodes."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer

    def get(self, name: str) -> KubeNode:
        """See `workers.KubeNodes.get`."""
        node = self._informer.get(name)
        if node is None:
            if self._informer.age_s() == float("inf"):
                raise Unavailable("the Nodes of the Kubernetes cluster are not read yet")
            raise NotFound(f"Kubernetes has no Node {name!r}")
        identity = identity_of(node)
        return KubeNode(
            name=identity.name,
            provider_id=identity.provider_id,
            system_uuid=identity.system_uuid,
            instance_id=identity.instance_id_annotation,
            region=identity.region,
        )
