"""Rules of the API server that clients run into: names, label syntax, what a Node may not change."""

import re
from typing import Any

from tests.kubesim.problems import invalid

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def check(label: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Raise the 422 for an object that may not be stored; `before` is what it replaces."""
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    if not _NAME.fullmatch(name):
        raise invalid(label, name, f'metadata.name: Invalid value: "{name}": must be a lowercase RFC 1123 subdomain')
    for key, value in (metadata.get("labels") or {}).items():
        prefix, slash, short = key.rpartition("/")
        if not _LABEL_NAME.fullmatch(short) or (slash and not _NAME.fullmatch(prefix)):
            raise invalid(label, name, f'metadata.labels: Invalid value: "{key}": not a qualified name')
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise invalid(label, name, f'metadata.labels: Invalid value: "{value}": not a valid label value')
    if label == "nodes":
        _check_node(name, obj, before)


def _check_node(name: str, node: dict[str, Any], before: dict[str, Any] | None) -> None:
    spec = node.get("spec") or {}
    old = ((before or {}).get("spec") or {}).get("providerID")
    if old and spec.get("providerID") != old:
        raise invalid(
            "nodes", name, 'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'
        )
    seen = set()
    for taint in spec.get("taints") or []:
        identity = (taint.get("key"), taint.get("effect"))
        if not all(identity):
            raise invalid("nodes", name, "spec.taints: Required value: a taint has a key and an effect")
        if identity in seen:
            raise invalid("nodes", name, f"spec.taints: Duplicate value: {identity}")
        seen.add(identity)
