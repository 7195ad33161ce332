import json
from collections.abc import AsyncIterator

import pytest

from kubekit.errors import KubeGone, KubeUnavailable
from kubekit.wire import decoded, event_of, lines


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_lines_of_any_length_over_any_pieces() -> None:
    long = b"x" * 5_000_000
    received = [line async for line in lines(pieces(b"a\nb", b"c\n\n", long, b"\n", b"cut of"))]
    assert received == [b"a", b"bc", long]


def test_what_is_not_json() -> None:
    assert decoded(b"<html>") is None
    assert decoded(b"") is None


@pytest.mark.parametrize("line", [b"<html>", b"[]", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": 1}'])
def test_what_is_no_event(line: bytes) -> None:
    with pytest.raises(KubeUnavailable, match="not an event"):
        event_of(line, "/x")


def test_error_events() -> None:
    def error(**status: object) -> bytes:
        return json.dumps({"type": "ERROR", "object": status}).encode()

    with pytest.raises(KubeGone, match="too old"):
        event_of(error(code=410, reason="Expired", message="too old"), "/x")
    with pytest.raises(KubeUnavailable, match="status 500"):
        event_of(error(message="what"), "/x")
    with pytest.raises(KubeUnavailable, match="status 429"):
        event_of(error(code=429), "/x")
