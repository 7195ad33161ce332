"""Bytes and client faults of the session, told apart: what is a whole answer, a watch event, a request never sent.

Must not send anything; only `sessions` imports it.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from kubekit.errors import KubeError, KubeGone, KubeUnavailable, KubeUnknownOutcome, KubeUnreachable, error_of_status


def decoded(data: bytes) -> Any:
    """The JSON value in `data`, or None when it is not JSON (a proxy's error page)."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def query_text(value: str | int | bool) -> str:
    """A query parameter's value as the API reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The lines of a body, of any length; a last line without its end was cut off and is left out."""
    buffer = bytearray()
    async for chunk in content.iter_any():
        searched = len(buffer)
        buffer += chunk
        end = buffer.find(b"\n", searched)
        while end >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            if line.strip():
                yield line
            end = buffer.find(b"\n")


def event_of(line: bytes, path: str) -> dict[str, Any]:
    """One watch event; raises for an ERROR event (KubeGone for code 410) and for what is no event at all."""
    event = decoded(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise KubeUnavailable("a line of the watch is not an event", method="GET", path=path)
    if event.get("type") == "ERROR":
        status = event["object"]
        code = status.get("code")
        if code == 410 or status.get("reason") in ("Expired", "Gone"):
            raise KubeGone(str(status.get("message", "")), method="GET", path=path, status=410, reason="Expired")
        raise error_of_status("GET", path, code if isinstance(code, int) else 500, status)
    return event


def transport_error(error: aiohttp.ClientError | TimeoutError, method: str, path: str) -> KubeError:
    """A fault below HTTP: no connection (nothing happened), or no whole answer (anything may have happened)."""
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return KubeUnreachable(f"no connection: {text}", method=method, path=path)
    if isinstance(error, TimeoutError):
        return KubeUnknownOutcome("no answer within the time-out", method=method, path=path)
    return KubeUnknownOutcome(f"the connection broke before the whole answer came: {text}", method=method, path=path)
