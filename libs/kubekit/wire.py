"""Bytes of answers: what is JSON, a line, a watch event.

Must not send anything; only `sessions` imports it.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from kubekit.errors import KubeGone, KubeUnavailable, error_of_status


def decoded(data: bytes) -> Any:
    """The JSON value in `data`, or None when it is not JSON (a proxy's error page)."""
    try:
        return json.loads(data)
    except ValueError:
        return None


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines of a body, of any length; a last line without its end was cut off and is left out."""
    buffer = bytearray()
    async for chunk in chunks:
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
