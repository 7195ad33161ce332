"""Turns results and errors into the bytes Proxmox VE's server sends: key order random, headers, gzip, extjs.

Must not know paths. Recorded from 9.2.
"""

import gzip
import json
import random
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

from tests.pvesim.errors import ApiError
from tests.pvesim.requests import SimResponse

JSON_TYPE = "application/json;charset=UTF-8"
GZIP_ABOVE_BYTES = 1024


class Unordered(list[Any]):
    """A list whose order Proxmox VE does not keep (it walks a hash)."""


class WithExtra(dict[str, Any]):
    """Data that needs keys beside `data` (a task log's `total`): {"data": ..., "total": ...}."""


class Answers:
    """Builds answers; the shuffling is seeded by the world's own generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def ok(self, data: Any, *, now: int, extjs: bool = False, accept_gzip: bool = False) -> SimResponse:
        """200 with `data`."""
        payload: dict[str, Any] = dict(data) if isinstance(data, WithExtra) else {"data": data}
        if extjs:
            payload["success"] = 1
        return self._json(200, "OK", payload, now, accept_gzip=accept_gzip)

    def error(self, error: ApiError, *, now: int, extjs: bool = False) -> SimResponse:
        """The error's status; the reason phrase is the first line of the text."""
        reason = error.message.split("\n", 1)[0]
        if error.bare:
            return SimResponse(error.status, reason, self._headers(now, None, close=True), b"")
        if error.plain:
            text = error.message + ("\n" if error.newline else "")
            return SimResponse(error.status, reason, self._headers(now, None, close=True), text.encode())
        message = error.message + ("\n" if error.newline else "")
        payload: dict[str, Any] = {"data": None, "message": message}
        if error.errors:
            payload["errors"] = error.errors
        if extjs:
            # Thrown exceptions carry their code as text, a plain die gets a number.
            payload |= {"success": 0, "status": 500 if error.status == 500 else str(error.status)}
            return self._json(200, "OK", payload, now)
        return self._json(error.status, reason, payload, now)

    def raw(self, status: int, reason: str, body: str | None, *, now: int) -> SimResponse:
        """An answer that a fault rule spells out."""
        content_type = JSON_TYPE if body is not None and body.startswith("{") else None
        return SimResponse(status, reason, self._headers(now, content_type, close=status >= 400), (body or "").encode())

    def _json(
        self, status: int, reason: str, payload: Mapping[str, Any], now: int, *, accept_gzip: bool = False
    ) -> SimResponse:
        body = json.dumps(self._shuffled(payload), ensure_ascii=False, separators=(",", ":")).encode()
        headers = self._headers(now, JSON_TYPE, close=status >= 400)
        if accept_gzip and len(body) > GZIP_ABOVE_BYTES:
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        return SimResponse(status, reason, headers, body)

    @staticmethod
    def _headers(now: int, content_type: str | None, *, close: bool) -> dict[str, str]:
        date = formatdate(now, usegmt=True)
        headers = {
            "Cache-Control": "max-age=0",
            "Connection": "close" if close else "Keep-Alive",
            "Date": date,
            "Expires": date,
            "Pragma": "no-cache",
            "Server": "pve-api-daemon/3.0",
        }
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def _shuffled(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            keys = list(value)
            self._rng.shuffle(keys)
            return {key: self._shuffled(value[key]) for key in keys}
        if isinstance(value, list):
            items = [self._shuffled(item) for item in value]
            if isinstance(value, Unordered):
                self._rng.shuffle(items)
            return items
        return value
