"""One HTTP request and answer as the world sees them, and the parts of HTTP that Proxmox VE's server has rules about.

Must not know any path below /api2. Rules from Proxmox VE 9.2, recorded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.pvesim.errors import ApiError

METHODS = ("GET", "POST", "PUT", "DELETE")
MAX_FORM_BYTES = 512 * 1024


@dataclass(frozen=True)
class SimRequest:
    """`target` is the raw path with query, `node` the host it was sent to ("" = the first)."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    node: str = ""

    def header(self, name: str) -> str:
        """A header's value, "" without it. Keys of `headers` are lower case."""
        return self.headers.get(name, "")

    @property
    def raw_path(self) -> str:
        """Still percent-encoded."""
        return self.target.partition("?")[0]


@dataclass(frozen=True)
class SimResponse:
    """What goes out."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def split_path(raw_path: str) -> tuple[str, list[str]]:
    """(format, decoded segments) of `/api2/<format>/...`; 501 for a format that does not exist."""
    parts = [part for part in raw_path.split("/") if part]
    if len(parts) < 2 or parts[0] != "api2":
        raise ApiError(404, "Not Found", bare=True)
    if parts[1] not in ("json", "extjs"):
        rest = "/" + "/".join(parts[2:])
        raise ApiError(501, f"no formatter for uri {rest}, {parts[1]}", newline=False, plain=True)
    return parts[1], [unquote(part) for part in parts[2:]]


def parse_params(request: SimRequest) -> dict[str, Any]:
    """Query and body together. Values are strings, lists of them for repeated keys, or what a JSON body nested.

    An uploaded file's bytes are under `tmpfilename`; the world spools them and puts the path there.
    """
    if request.method not in METHODS:
        raise ApiError(501, f"method '{request.method}' not available", bare=True)
    content_type = request.header("content-type").partition(";")[0].strip().lower()
    if request.method in ("GET", "DELETE") and request.body:
        raise ApiError(501, f"Unexpected content for method '{request.method}'", newline=False, plain=True)
    params = _collect(parse_qsl(request.target.partition("?")[2], keep_blank_values=True))
    if not request.body:
        return params
    if content_type in ("", "application/x-www-form-urlencoded"):
        if len(request.body) > MAX_FORM_BYTES:
            raise ApiError(501, "for data too large", newline=False, plain=True)
        return params | _collect(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    if content_type == "application/json":
        return params | _parse_json(request.body)
    if content_type == "multipart/form-data":
        return params | _parse_multipart(request.header("content-type"), request.body)
    # The unbalanced quote is Proxmox VE's own.
    raise ApiError(506, f"upload 'Content-Type '{content_type}' not implemented", newline=False, plain=True)


def _collect(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key not in result:
            result[key] = value
        elif isinstance(result[key], list):
            result[key].append(value)
        else:
            result[key] = [result[key], value]
    return result


def _parse_json(body: bytes) -> dict[str, Any]:
    text = body.decode("utf-8", "replace")
    try:
        raw = json.loads(text)
    except ValueError as error:
        where = f'at character offset 1 (before "{text[1:40]}") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.'
        raise ApiError(500, f"'\"' expected, {where}", plain=True) from error
    return {key: _scalar(value) for key, value in raw.items()}


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list):
        return [str(item) for item in value]
    return value


def _parse_multipart(content_type: str, body: bytes) -> dict[str, Any]:
    boundary = content_type.partition("boundary=")[2].strip('"')
    result: dict[str, Any] = {}
    for part in body.split(b"--" + boundary.encode()):
        head, blank, data = part.partition(b"\r\n\r\n")
        if not blank:
            continue
        fields = dict(
            piece.strip().split("=", 1)
            for piece in head.decode("utf-8", "replace").replace("\r\n", ";").split(";")
            if "=" in piece
        )
        name = fields.get("name", "").strip('"')
        if "filename" in fields:
            result["filename"] = fields["filename"].strip('"')
            result["tmpfilename"] = data.removesuffix(b"\r\n")
        elif name:
            result[name] = data.removesuffix(b"\r\n").decode("utf-8", "replace")
    return result
