"""Names, keys, paths and references of Kubernetes objects; pure.

Objects are raw mappings as the API sends them: nothing is ever round-tripped through a typed model, which would drop
fields that this program does not know.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Object = Mapping[str, Any]


def resource_path(
    api_version: str, plural: str, *, namespace: str | None = None, name: str | None = None, subresource: str = ""
) -> str:
    """The URL path of a resource: `("v1", "nodes", name="n1", subresource="status")` → `/api/v1/nodes/n1/status`."""
    parts = ["api" if "/" not in api_version else "apis", *api_version.split("/")]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(plural)
    if name is not None:
        parts.append(name)
    if subresource:
        parts.append(subresource)
    return "/" + "/".join(quote(part, safe="") for part in parts)


def format_key(name: str, namespace: str | None = None) -> str:
    """The key of an object within its resource: `name`, or `namespace/name`."""
    return f"{namespace}/{name}" if namespace else name


def parse_key(key: str) -> tuple[str, str | None]:
    """The inverse of `format_key`: name and namespace."""
    namespace, slash, name = key.rpartition("/")
    return name, namespace if slash else None


def key_of(obj: Object) -> str:
    """The key of an object as the API sent it."""
    metadata = obj["metadata"]
    return format_key(metadata["name"], metadata.get("namespace"))


def version_of(obj: Object) -> str:
    """The object's (or list's) resource version, "" when it has none."""
    return str(obj.get("metadata", {}).get("resourceVersion", ""))


def uid_of(obj: Object) -> str:
    """The object's uid, "" when it has none."""
    return str(obj.get("metadata", {}).get("uid", ""))


def reference_to(obj: Object) -> dict[str, str]:
    """An ObjectReference to `obj`. Needs `kind` and `apiVersion`, which items of a list carry only if put there."""
    metadata = obj["metadata"]
    reference = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", ""), "name": metadata["name"]}
    for key in ("namespace", "uid", "resourceVersion"):
        if metadata.get(key):
            reference[key] = metadata[key]
    return reference


def describe_path(path: str) -> tuple[str, bool]:
    """Resource (with group and sub-resource, `leases.coordination.k8s.io`, `nodes/status`), and whether one is named.

    For labels of metrics: no object names in it. A path that is not a resource's is given back without its last part.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = f".{parts[1]}", parts[3:]
    else:
        return parts[0], False
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return "discovery", False
    sub = f"/{rest[2]}" if len(rest) > 2 else ""
    return f"{rest[0]}{group}{sub}", len(rest) > 1
