"""When a simulated answer equals a recorded one.

Equal means, all of it:

* the same status;
* the same reason phrase, and the same texts in `message`, `errors` and a task's `exitstatus`, once normalised: UPIDs
  without process id and time, digests, line numbers, temporary names and byte counts replaced by a mark;
* the same kind of body (none, plain text, JSON) and the same shape of JSON: objects by key, scalars by type (null,
  boolean, number, string), recursively;
* lists by the union of their elements' shapes, since their length and order follow from what was measured when. An
  empty list equals only an empty one. Entries that name themselves by `key` (a VM's /pending) are compared key by key.
* a string that is the whole answer (a volume's id, a UPID) by its normalised text.

Must not be lenient anywhere else: a difference that should be allowed is written here, for every call alike.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TEXT_KEYS = frozenset(["message", "exitstatus"])
_NORMAL = (
    (re.compile(r"UPID:([^:]+):[0-9A-F]+:[0-9A-F]+:[0-9A-F]+:([^:]*):([^:]*):([^:]*):"), r"UPID:\1:\2:\3:\4:"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<digest>"),
    (re.compile(r"\bline \d+\b"), "line <n>"),
    (re.compile(r"\.(tmp|tmp_dwnl)\.\d+"), r".\1.<n>"),
    (re.compile(r"/var(?:/tmp/)?pveupload-[0-9a-f]+"), "<uploaded file>"),
    (re.compile(r"\b\d{7,}\b"), "<n>"),
)


@dataclass(frozen=True)
class Answer:
    """Status line and body of an answer; `body` is parsed JSON, or a text that is not JSON ("" without a body)."""

    status: int
    reason: str
    body: Any


def parse_body(raw: bytes) -> Any:
    """JSON if it is, else the text."""
    text = raw.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def normalise(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, mark in _NORMAL:
        text = pattern.sub(mark, text)
    return text.strip()


def differences(expected: Answer, actual: Answer) -> list[str]:
    """What is not equal, one line each; empty when all is."""
    found = []
    if expected.status != actual.status:
        found.append(f"status: {expected.status} recorded, {actual.status} simulated")
    if normalise(expected.reason) != normalise(actual.reason):
        found.append(f"reason: {normalise(expected.reason)!r} recorded, {normalise(actual.reason)!r} simulated")
    found.extend(_body_differences(expected.body, actual.body))
    return found


def _body_differences(expected: Any, actual: Any) -> Iterator[str]:
    if isinstance(expected, str) or isinstance(actual, str):
        if type(expected) is not type(actual):
            yield f"body: {_kind(expected)} recorded, {_kind(actual)} simulated"
        elif normalise(expected) != normalise(actual):
            yield f"body: {expected[:100]!r} recorded, {actual[:100]!r} simulated"
        return
    yield from _compare(_shape(expected), _shape(actual), "")


def _kind(body: Any) -> str:
    if isinstance(body, str):
        return "text" if body else "no body"
    return "JSON"


# A shape: a set of scalar types and texts, {"{}": {key: shape}} for objects, {"[]": shape} for lists; unions merge.
Shape = dict[str, Any]


def _shape(value: Any, path: tuple[str, ...] = ()) -> Shape:
    if isinstance(value, dict):
        return {"{}": {key: _shape(item, (*path, key)) for key, item in value.items()}}
    if isinstance(value, list):
        return _list_shape(value, path)
    if isinstance(value, str):
        texts = path[-1:] == ("data",) or (path and path[-1] in _TEXT_KEYS) or path[:1] == ("errors",)
        return {f"text {normalise(value)!r}": True} if texts else {"string": True}
    if value is None:
        return {"null": True}
    return {"boolean" if isinstance(value, bool) else "number": True}


def _list_shape(items: list[Any], path: tuple[str, ...]) -> Shape:
    if not items:
        return {"empty list": True}
    if all(isinstance(item, dict) and isinstance(item.get("key"), str) for item in items):
        return {"entries": {item["key"]: _shape(item, (*path, "[]")) for item in items}}
    union: Shape = {}
    for item in items:
        _merge(union, _shape(item, (*path, "[]")))
    return {"[]": union}


def _merge(into: Shape, more: Shape) -> None:
    for kind, detail in more.items():
        if kind in ("{}", "entries"):
            known = into.setdefault(kind, {})
            for key, shape in detail.items():
                _merge(known.setdefault(key, {}), shape)
        elif kind == "[]":
            _merge(into.setdefault(kind, {}), detail)
        else:
            into[kind] = True


def _compare(expected: Shape, actual: Shape, path: str) -> Iterator[str]:
    scalars = [sorted(kind for kind in shape if kind not in ("{}", "[]", "entries")) for shape in (expected, actual)]
    if scalars[0] != scalars[1]:
        yield f"{path or 'body'}: {_named(expected)} recorded, {_named(actual)} simulated"
    for kind in ("{}", "entries"):
        if kind in expected and kind in actual:
            yield from _compare_keys(expected[kind], actual[kind], path)
        elif (kind in expected or kind in actual) and scalars[0] == scalars[1]:
            yield f"{path or 'body'}: {_named(expected)} recorded, {_named(actual)} simulated"
    if "[]" in expected and "[]" in actual:
        yield from _compare(expected["[]"], actual["[]"], f"{path}[]")
    elif ("[]" in expected or "[]" in actual) and scalars[0] == scalars[1]:
        yield f"{path or 'body'}: {_named(expected)} recorded, {_named(actual)} simulated"


def _compare_keys(expected: dict[str, Shape], actual: dict[str, Shape], path: str) -> Iterator[str]:
    for key in sorted(expected.keys() | actual.keys()):
        if key not in actual:
            yield f"{path}.{key}: recorded, not simulated"
        elif key not in expected:
            yield f"{path}.{key}: simulated, not recorded"
        else:
            yield from _compare(expected[key], actual[key], f"{path}.{key}")


def _named(shape: Shape) -> str:
    names = {"{}": "object", "[]": "list", "entries": "list of keys"}
    return " or ".join(sorted(names.get(kind, kind) for kind in shape)) or "nothing"
