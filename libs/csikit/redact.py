"""Requests as text that may be logged: what the protocol marks as secret is not in it.

Goes by the `csi_secret` option of each field's descriptor, at any depth, and never by field names. A marked map keeps
its keys, since which secrets were sent is what one needs to know.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from csikit.pb import csi_pb2

STRIPPED = "***stripped***"


def redact(message: Message) -> str:
    """One line with the set fields of `message` in the order of their numbers; secret values are replaced."""
    parts = []
    for field, value in message.ListFields():
        shown = _stripped(field, value) if _is_secret(field) else _shown(field, value)
        parts.append(f"{field.name}={shown}")
    return "{" + " ".join(parts) + "}"


def secret_values(message: Message) -> Iterator[str]:
    """Every text that a marked field of `message` holds, at any depth: what no log line may show."""
    for field, value in message.ListFields():
        if _is_secret(field):
            yield from _texts(field, value)
        elif _is_map(field):
            if _holds_messages(field):
                for inner in value.values():
                    yield from secret_values(inner)
        elif field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from secret_values(inner)


def _is_secret(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[csi_pb2.csi_secret])


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _holds_messages(field: FieldDescriptor) -> bool:
    assert field.message_type is not None  # noqa: S101 - a map field; for the type checker
    return field.message_type.fields_by_name["value"].message_type is not None


def _shown(field: FieldDescriptor, value: Any) -> str:
    if _is_map(field):
        show = redact if _holds_messages(field) else repr
        return "{" + " ".join(f"{key}={show(value[key])}" for key in sorted(value)) + "}"
    if field.is_repeated:
        return "[" + " ".join(_one(field, item) for item in value) + "]"
    return _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> str:
    if isinstance(value, Message):
        return redact(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    return repr(value)


def _stripped(field: FieldDescriptor, value: Any) -> str:
    return "{" + " ".join(f"{key}={STRIPPED}" for key in sorted(value)) + "}" if _is_map(field) else STRIPPED


def _texts(field: FieldDescriptor, value: Any) -> Iterator[str]:
    """Every text in a value that is secret as a whole."""
    if _is_map(field):
        for key in value:
            yield from _texts_of(value[key])
    elif field.is_repeated:
        for item in value:
            yield from _texts_of(item)
    else:
        yield from _texts_of(value)


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, Message):
        for field, inner in value.ListFields():
            yield from _texts(field, inner)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, str):
        yield value
