"""Label and field selectors; pure."""

import re
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Matches = Callable[[Object], bool]

_SET_BASED = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")


def selector(label_text: str, field_text: str) -> Matches:
    """A test for objects from `labelSelector` and `fieldSelector`; empty texts let everything pass."""
    tests = [_label_test(each) for each in _requirements(label_text)]
    tests += [_field_test(each) for each in _requirements(field_text)]
    return lambda obj: all(test(obj) for test in tests)


def _requirements(text: str) -> list[str]:
    # Commas inside parentheses belong to a set.
    return [each.strip() for each in re.split(r",(?![^()]*\))", text) if each.strip()]


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _label_test(text: str) -> Matches:
    if found := _SET_BASED.match(text):
        key, operator, values = found[1], found[2], {each.strip() for each in found[3].split(",")}
        if operator == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    if "!=" in text:
        key, _, value = (part.strip() for part in text.partition("!="))
        return lambda obj: _labels(obj).get(key) != value
    if "=" in text:
        key, _, value = text.partition("=")
        return lambda obj: _labels(obj).get(key.strip()) == value.lstrip("=").strip()
    if text.startswith("!"):
        return lambda obj: text[1:].strip() not in _labels(obj)
    return lambda obj: text in _labels(obj)


def _field_test(text: str) -> Matches:
    unequal = "!=" in text
    path, _, value = text.partition("!=" if unequal else "=")
    parts, value = path.strip().split("."), value.lstrip("=").strip()

    def test(obj: Object) -> bool:
        found: Any = obj
        for part in parts:
            found = found.get(part) if isinstance(found, dict) else None
        return (str(found or "") == value) != unequal

    return test
