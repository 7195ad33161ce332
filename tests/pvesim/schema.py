"""Parameter checks from the API's own schema, in Proxmox VE's wording (PVE::JSONSchema, 9.2 recorded).

The schema is data (`data/api-schema.json`: parameters, permissions, which calls are protected and proxied). Must not
hold a rule about any single call.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.pvesim import propstring
from tests.pvesim.errors import ApiError
from tests.pvesim.formats import check_format

UNKNOWN = "property is not defined in schema and the schema does not allow additional properties"
MISSING = "property is missing and it is not optional"
PATTERN = "value does not match the regex pattern"
# How many of each indexed option exist (qemu-server 9).
_INDEXED = {
    "scsi": 31, "virtio": 16, "sata": 6, "ide": 4, "net": 32, "unused": 256, "ipconfig": 32, "serial": 4, "parallel": 3,
    "usb": 14, "hostpci": 16, "numa": 8, "virtiofs": 10, "link": 8,
}  # fmt: skip
_INDEXED_NAME = re.compile(r"([a-z]+)(\d+)")
# Named formats that are property strings.
_PROPERTY_FORMATS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "pve-qm-ipconfig": {name: {"type": "string", "optional": 1} for name in ("ip", "ip6", "gw", "gw6")},
    "pve-qm-cicustom": {name: {"type": "string", "optional": 1} for name in ("user", "network", "meta", "vendor")},
}
_ON_VM: dict[str, dict[str, Any]] = {
    "node": {"type": "string", "format": "pve-node"},
    "vmid": {"type": "integer", "format": "pve-vmid"},
}
# Calls that the data lacks: (method, path) -> the same shape as in the data.
_MISSING_CALLS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("GET", "/nodes/{node}/qemu/{vmid}/feature"): {
        "params": {
            **_ON_VM,
            "feature": {"type": "string", "enum": ["snapshot", "clone", "copy"]},
            "snapname": {"type": "string", "format": "pve-configid", "optional": 1},
        },
        "permissions": {"check": ["perm", "/vms/{vmid}", ["VM.Audit"]]},
        "protected": 1,
        "proxyto": "node",
    },
    ("POST", "/nodes/{node}/qemu/{vmid}/vncproxy"): {
        "params": _ON_VM,
        "permissions": {"check": ["perm", "/vms/{vmid}", ["VM.Console"]]},
        "protected": 1,
        "proxyto": "node",
    },
    ("GET", "/access/domains"): {"permissions": {"user": "world"}},
}
# Parameters that 9.2 has and the data (9.1) lacks.
_ADDED: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("POST", "/nodes/{node}/qemu/{vmid}/config"): {
        "background_delay": {"type": "integer", "minimum": 1, "maximum": 30, "optional": 1},
        "import-working-storage": {"type": "string", "format": "pve-storage-id", "optional": 1},
    },
}


@dataclass(frozen=True)
class Endpoint:
    """One method of one path template."""

    method: str
    template: str
    params: Mapping[str, Mapping[str, Any]]
    permissions: Mapping[str, Any]
    protected: bool
    proxied: bool
    # Parameters that the schema data lacks are let through.
    lenient: bool = False

    def spec_of(self, name: str) -> Mapping[str, Any] | None:
        """The schema of one parameter, indexed ones (`scsi3`) included."""
        if name in self.params:
            return self.params[name]
        indexed = _INDEXED_NAME.fullmatch(name)
        if indexed and int(indexed[2]) < _INDEXED.get(indexed[1], 0) and str(int(indexed[2])) == indexed[2]:
            return self.params.get(f"{indexed[1]}[n]")
        return None

    def normalize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays for list-typed strings become lists in text; null is refused as Proxmox VE does."""
        result: dict[str, Any] = {}
        for name, value in params.items():
            if value is None:
                raise ApiError(500, f"unable to parse value of '{name}' - got undefined value")
            spec = self.spec_of(name) or {}
            if isinstance(value, list) and str(spec.get("format", "")).endswith("-list"):
                value = ",".join(value)
            result[name] = value
        return result

    def check(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Reasons by parameter; empty when all is well."""
        errors: dict[str, str] = {}
        for name, spec in self.params.items():
            if name not in params and not spec.get("optional") and not name.endswith("[n]"):
                errors[name] = MISSING
        for name, value in params.items():
            found = self.spec_of(name)
            if found is None:
                if not self.lenient:
                    errors[name] = UNKNOWN
            elif (why := check_value(found, value, name)) is not None:
                errors[name] = why
            elif "requires" in found and found["requires"] not in params:
                needed = str(found["requires"])
                text = f"missing property required by '{name}'"
                errors[needed] = f"{errors[needed]}\\n{text}" if needed in errors else text
        return errors


def check_value(spec: Mapping[str, Any], value: Any, path: str) -> str | None:
    """Why `value` does not fit `spec`, or None."""
    if isinstance(value, (dict, list)):
        return (
            f"type check ('{spec.get('type', 'string')}') failed - got {'HASH' if isinstance(value, dict) else 'ARRAY'}"
        )
    text = str(value)
    kind = spec.get("type", "string")
    if not _has_type(kind, text):
        return f"type check ('{kind}') failed - got '{text}'"
    fmt = spec.get("format")
    if isinstance(fmt, Mapping):
        if (why := check_property_string(text, fmt, path)) is not None:
            return f"invalid format - {why}\n"
    elif isinstance(fmt, str) and fmt in _PROPERTY_FORMATS:
        if (why := check_property_string(text, _PROPERTY_FORMATS[fmt], path)) is not None:
            return f"invalid format - {why}\n"
    elif isinstance(fmt, str) and (why := check_format(fmt, text)) is not None:
        return f"invalid format - {why}\n"
    return _check_text(spec, text) or _check_range(spec, text)


def _has_type(kind: str, text: str) -> bool:
    match kind:
        case "integer":
            return re.fullmatch(r"[+-]?\d+", text) is not None
        case "number":
            return re.fullmatch(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", text) is not None
        case "boolean":
            return text in ("0", "1")
        case _:
            return True


def _check_text(spec: Mapping[str, Any], text: str) -> str | None:
    if "pattern" in spec and not _compiled(str(spec["pattern"])).fullmatch(text):
        return PATTERN
    if "maxLength" in spec and len(text) > int(spec["maxLength"]):
        return f"value may only be {spec['maxLength']} characters long"
    if "minLength" in spec and len(text) < int(spec["minLength"]):
        return f"value must be at least {spec['minLength']} characters long"
    if "enum" in spec and text not in [str(choice) for choice in spec["enum"]]:
        return f"value '{text}' does not have a value in the enumeration '{', '.join(map(str, spec['enum']))}'"
    return None


def _check_range(spec: Mapping[str, Any], text: str) -> str | None:
    if spec.get("type") not in ("integer", "number"):
        return None
    if "minimum" in spec and float(text) < float(spec["minimum"]):
        return f"value must have a minimum value of {spec['minimum']}"
    if "maximum" in spec and float(text) > float(spec["maximum"]):
        return f"value must have a maximum value of {spec['maximum']}"
    return None


def check_property_string(text: str, schema: propstring.PropSchema, path: str) -> str | None:
    """Why `text` is no property string of `schema`: "format error" and a line per property."""
    try:
        values = propstring.parse(text, schema)
    except propstring.PropError as error:
        return error.text
    problems: list[str] = []
    for name, spec in schema.items():
        if name not in values and not spec.get("optional") and "alias" not in spec:
            problems.append(f"{path}.{name}: {MISSING}")
    for name, value in values.items():
        if name not in schema:
            problems.append(f"{path}.{name}: {UNKNOWN}")
        elif (why := _check_property(schema[name], value, f"{path}.{name}")) is not None:
            problems.append(f"{path}.{name}: {why}")
    return "format error\n" + "\n".join(problems) if problems else None


def _check_property(spec: Mapping[str, Any], value: str, path: str) -> str | None:
    # Inside property strings booleans are lenient, unlike in parameters.
    if spec.get("type") == "boolean" and value.lower() in ("yes", "on", "true", "no", "off", "false"):
        return None
    why = check_value(spec, value, path)
    return why.rstrip("\n") if why is not None else None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Perl prints compiled patterns as (?^:...), with flags between ^ and the colon.
    return re.compile(re.sub(r"\(\?\^([a-z]*):", lambda m: f"(?{m[1]}:" if m[1] else "(?:", pattern))


class ApiSchema:
    """All endpoints, found by method and concrete path."""

    def __init__(self, raw: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._by_template: dict[str, dict[str, Endpoint]] = {}
        known = {(method, template): spec for template, methods in raw.items() for method, spec in methods.items()}
        for (method, template), spec in {**known, **_MISSING_CALLS}.items():
            params = {**spec.get("params", {}), **_ADDED.get((method, template), {})}
            permissions, proxied = spec.get("permissions", {}), spec.get("proxyto") == "node"
            self.add(Endpoint(method, template, params, permissions, bool(spec.get("protected")), proxied))

    def add(self, endpoint: Endpoint) -> None:
        """Make one more endpoint known."""
        self._by_template.setdefault(endpoint.template, {})[endpoint.method] = endpoint

    def get(self, method: str, template: str) -> Endpoint:
        """The endpoint; KeyError if there is none."""
        return self._by_template[template][method]

    def templates(self) -> list[str]:
        """Every path template."""
        return list(self._by_template)


@lru_cache(maxsize=1)
def load() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The schema data of this package."""
    raw: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(
        (Path(__file__).parent / "data" / "api-schema.json").read_text(encoding="utf-8")
    )
    return raw
