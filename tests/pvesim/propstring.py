"""Property strings (`local:1,format=qcow2`): parse against a schema, print sorted, with Proxmox VE's wording of errors.

Pure. Must not know what a drive or a network card is.
"""

from collections.abc import Mapping
from typing import Any

PropSchema = Mapping[str, Mapping[str, Any]]


class PropError(ValueError):
    """Not a property string of this schema; `problems` maps the property to the reason."""

    def __init__(self, problems: Mapping[str, str], text: str = "") -> None:
        super().__init__(text or str(problems))
        self.problems = dict(problems)
        self.text = text


def parse(value: str, schema: PropSchema) -> dict[str, str]:
    """Split `value` into {property: text}, aliases resolved; raises PropError for what the split itself can see."""
    default_key = next((name for name, spec in schema.items() if spec.get("default_key")), None)
    result: dict[str, str] = {}
    for part in [piece.strip() for piece in value.split(",")]:
        if not part:
            continue
        key, equals, text = part.partition("=")
        if equals and _is_name(key):
            target = _resolve_alias(schema, key, text, result)
            if target in result:
                raise PropError({}, f"duplicate key in comma-separated list property: {target}")
            result[target] = text
        elif default_key is not None:
            if default_key in result:
                raise PropError({}, f"duplicate key in comma-separated list property: {default_key}")
            result[default_key] = part
        else:
            raise PropError({}, "value without key, but schema does not define a default key")
    return result


def _is_name(key: str) -> bool:
    return bool(key) and all(c.isalnum() or c in "-_" for c in key)


def _resolve_alias(schema: PropSchema, key: str, text: str, result: dict[str, str]) -> str:
    spec = schema.get(key)
    if spec is None or "alias" not in spec:
        return key
    key_alias = spec.get("keyAlias")
    if key_alias:
        result[str(key_alias)] = key
    return str(spec["alias"])


def format_value(values: Mapping[str, str], default_key: str) -> str:
    """Default key first and bare, the others sorted."""
    head = [values[default_key]] if default_key in values else []
    return ",".join(head + [f"{key}={values[key]}" for key in sorted(values) if key != default_key])
