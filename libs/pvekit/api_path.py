"""API paths: built of encoded parts, and folded back into routes for metrics. Pure."""

from urllib.parse import quote

_NAMED = {
    "nodes": "{node}",
    "qemu": "{vmid}",
    "lxc": "{vmid}",
    "storage": "{storage}",
    "content": "{volume}",
    "tasks": "{upid}",
    "snapshot": "{snapshot}",
}


def api_path(*parts: str | int) -> str:
    """`/nodes/pve1/storage/local/content/local%3A9999%2Fx.raw` of its parts, each percent-encoded whole.

    ValueError for an empty, "." or ".." part: such a path would address something else (the peers asked for
    `/nodes//qemu/…` and took the answer for a volume's).
    """
    for part in parts:
        if str(part) in {"", ".", ".."}:
            raise ValueError(f"empty or dotted part in an API path: {parts!r}")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def check_path(path: str) -> None:
    """ValueError for a path that `api_path` could not have made."""
    if not path.startswith("/") or any(part in {"", ".", ".."} for part in path[1:].split("/")) or "?" in path:
        raise ValueError(f"not an API path: {path!r}")


def route_of(path: str) -> str:
    """`/nodes/{node}/qemu/{vmid}/pending` of a path: a bounded number of values for a metric's label."""
    named, before = [], ""
    for part in path[1:].split("/"):
        named.append(_NAMED.get(before, part))
        before = part if before not in _NAMED else ""
    return "/" + "/".join(named)
