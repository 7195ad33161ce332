"""Which resources there are, and how a URL path names one; a resource not listed here works all the same."""

from dataclasses import dataclass

# (group, plural) → kind. Unlisted kinds are learnt from the first object.
KINDS = {
    ("", "nodes"): "Node",
    ("", "pods"): "Pod",
    ("", "events"): "Event",
    ("", "namespaces"): "Namespace",
    ("", "configmaps"): "ConfigMap",
    ("", "secrets"): "Secret",
    ("", "services"): "Service",
    ("", "serviceaccounts"): "ServiceAccount",
    ("", "persistentvolumes"): "PersistentVolume",
    ("", "persistentvolumeclaims"): "PersistentVolumeClaim",
    ("coordination.k8s.io", "leases"): "Lease",
    ("events.k8s.io", "events"): "Event",
    ("storage.k8s.io", "storageclasses"): "StorageClass",
    ("storage.k8s.io", "csidrivers"): "CSIDriver",
    ("storage.k8s.io", "csinodes"): "CSINode",
    ("storage.k8s.io", "csistoragecapacities"): "CSIStorageCapacity",
    ("storage.k8s.io", "volumeattachments"): "VolumeAttachment",
    ("storage.k8s.io", "volumeattributesclasses"): "VolumeAttributesClass",
}

WITHOUT_STATUS = frozenset(
    {
        *("leases", "events", "configmaps", "secrets", "serviceaccounts", "storageclasses", "csidrivers", "csinodes"),
        *("csistoragecapacities", "volumeattributesclasses"),
    }
)

CLUSTER_SCOPED = frozenset(
    {
        *("Node", "Namespace", "PersistentVolume", "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment"),
        *("VolumeAttributesClass", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
    }
)


@dataclass(frozen=True)
class Resource:
    """A resource type; the version is the one that is asked for and plays no part in identity."""

    group: str
    plural: str

    @property
    def label(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True)
class Target:
    """What a path names. `namespace` None: cluster-scoped, or all namespaces; `name` None: the collection."""

    resource: Resource
    version: str
    namespace: str | None
    name: str | None
    subresource: str

    @property
    def api_version(self) -> str:
        return f"{self.resource.group}/{self.version}" if self.resource.group else self.version


def parse_path(path: str) -> Target | None:
    """The target of a resource path, or None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    return Target(Resource(group, rest[0]), version, namespace, name or None, subresource)


def resource_of_object(obj: dict[str, object]) -> Resource:
    """The resource an object belongs to, from its apiVersion and kind."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    kind = str(obj["kind"])
    for (known_group, plural), known in KINDS.items():
        if (known_group, known) == (group, kind):
            return Resource(group, plural)
    lower = kind.lower()
    return Resource(
        group, f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}es" if lower.endswith("s") else f"{lower}s"
    )
