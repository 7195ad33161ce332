"""Merge, JSON and strategic patches; pure, the target is never changed."""

import copy
from typing import Any

# Lists that a strategic patch merges by a key. Taints have none: a patch replaces the whole list.
MERGE_KEYS = {
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "containers": "name",
    "volumes": "name",
}


class BadPatch(Exception):
    """The patch cannot be applied; `unprocessable` tells a failed test or missing path from a malformed patch."""

    def __init__(self, message: str, *, unprocessable: bool = False) -> None:
        super().__init__(message)
        self.unprocessable = unprocessable


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_patch(target: Any, patch: Any, key: str = "") -> Any:
    """A merge patch, except that lists with a merge key are merged item by item, with `$patch` directives."""
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, MERGE_KEYS.get(key))
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {name: copy.deepcopy(value) for name, value in patch.items() if name != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            result.pop(name, None)
        else:
            result[name] = strategic_patch(result.get(name), value, name)
    return result


def _strategic_list(target: list[Any], patch: list[Any], merge_key: str | None) -> list[Any]:
    directives = [item["$patch"] for item in patch if isinstance(item, dict) and set(item) == {"$patch"}]
    items = [item for item in patch if not (isinstance(item, dict) and set(item) == {"$patch"})]
    if merge_key is None or "replace" in directives:
        return copy.deepcopy(items)
    result = list(target)
    for item in items:
        at = next((index for index, old in enumerate(result) if old.get(merge_key) == item.get(merge_key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(copy.deepcopy(item))
        else:
            result[at] = strategic_patch(result[at], item)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902."""
    if not isinstance(operations, list):
        raise BadPatch("a JSON patch is a list of operations")
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise BadPatch(f"the operation {operation} cannot be applied: {error!r}", unprocessable=True) from error
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "test":
            if _find(document, path) != operation["value"]:
                raise ValueError("test failed")
            return document
        case "add":
            return _put(document, path, copy.deepcopy(operation["value"]), insert=True)
        case "replace":
            _find(document, path)
            return _put(document, path, copy.deepcopy(operation["value"]), insert=False)
        case "remove":
            parent = _find(document, path[:-1])
            del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
            return document
        case "copy" | "move" as kind:
            source = _pointer(operation["from"])
            value = copy.deepcopy(_find(document, source))
            if kind == "move":
                document = _apply(document, {"op": "remove", "path": operation["from"]})
            return _put(document, path, value, insert=True)
        case unknown:
            raise ValueError(f"unknown operation {unknown}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError("a path begins with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    return document


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if insert:
            if index > len(parent):
                raise IndexError(index)
            parent.insert(index, value)
        else:
            parent[index] = value
    else:
        parent[last] = value
    return document
