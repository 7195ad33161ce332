"""The recorded requests and answers of a Proxmox VE 9.2 API, as data. Must not interpret them.

`data/pve-recordings-9.2.jsonl.gz` holds one JSON object a line, in the order of recording: a stand-alone node
(`single`, and `single-fakelvm`, which is the same node later, with LVM storages played by a stand-in) and a cluster of
three.
"""

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

DATA = Path(__file__).parent / "data" / "pve-recordings-9.2.jsonl.gz"
Place = Literal["single", "cluster"]
# "failover nodes +69s": told by the recorder, in whole seconds since something happened.
_SINCE = re.compile(r"(.+) \+(\d+)s")
_UPID_TIME = re.compile(r"UPID:[^:]+:[0-9A-F]{8}:[0-9A-F]{8,9}:([0-9A-F]{8}):")


@dataclass(frozen=True)
class Recording:
    """One request and its answer. `number` counts from 0 over the whole file.

    `sent_at` is the recorded node's Unix time: known to the second where the answer started a task, else it follows
    from the durations in between.
    """

    number: int
    env: str
    auth: str | None
    method: str
    path: str
    params: Mapping[str, Any]
    encoding: str
    raw_body: str | None
    raw_type: str | None
    status: int
    reason: str
    body: Any
    elapsed_s: float
    note: str
    sent_at: float

    @property
    def place(self) -> Place:
        """Which of the two recorded installations this went to."""
        return "cluster" if self.env == "cluster" else "single"

    @property
    def since(self) -> tuple[str, int] | None:
        """(event, seconds since) where the recorder said so."""
        match = _SINCE.fullmatch(self.note)
        return (match[1].split()[0], int(match[2])) if match else None

    @property
    def started_upid(self) -> str | None:
        """The task that this request started, if it did."""
        data = self.body.get("data") if isinstance(self.body, dict) else None
        return data if isinstance(data, str) and data.startswith("UPID:") and self.method != "GET" else None

    @property
    def polled_upid(self) -> str | None:
        """The task whose status or log this request reads."""
        match = re.search(r"/tasks/([^/]+)/(status|log)$", self.path.partition("?")[0])
        return unquote(match[1]) if match and match[1].startswith("UPID") else None


@lru_cache(maxsize=1)
def load() -> tuple[Recording, ...]:
    """Every recording, in order."""
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        raws = [json.loads(line) for line in lines]
    return tuple(_timed(raws))


def _timed(raws: list[dict[str, Any]]) -> list[Recording]:
    recordings: list[Recording] = []
    clock: dict[str, float] = {}
    zero: dict[str, float] = {}
    for number, raw in enumerate(raws):
        recording = _parse(number, raw, 0.0)
        started = recording.started_upid
        match = _UPID_TIME.match(started) if started else None
        at = clock.get(recording.place, 0.0)
        if match:
            at = max(at, float(int(match[1], 16)))
        if since := _SINCE.fullmatch(recording.note):
            what = since[1].split()[0]
            if since[2] == "0":
                zero[what] = at
            at = max(at, zero[what] + float(since[2]))
        recordings.append(_parse(number, raw, at))
        if at:
            clock[recording.place] = at + recording.elapsed_s
    return _filled_to_the_front(recordings)


def _filled_to_the_front(recordings: list[Recording]) -> list[Recording]:
    """Give times to what came before the first known one of each place."""
    result = list(recordings)
    for place in ("single", "cluster"):
        mine = [recording for recording in recordings if recording.place == place]
        known = next(index for index, recording in enumerate(mine) if recording.sent_at)
        at = mine[known].sent_at
        for recording in reversed(mine[:known]):
            at -= recording.elapsed_s
            result[recording.number] = _at(recording, at)
    return result


def _at(recording: Recording, sent_at: float) -> Recording:
    return Recording(**{**recording.__dict__, "sent_at": sent_at})


def _parse(number: int, raw: Mapping[str, Any], sent_at: float) -> Recording:
    params = raw.get("params")
    return Recording(
        number=number,
        env=raw["env"],
        auth=raw["auth"],
        method=raw["method"],
        path=raw["path"],
        params=params if isinstance(params, dict) else {},
        encoding=raw["enc"],
        raw_body=raw.get("request_body"),
        raw_type=raw.get("request_ctype"),
        status=raw["status"],
        reason=raw["reason"],
        body=raw["body"],
        elapsed_s=raw["elapsed_s"],
        note=raw.get("note") or "",
        sent_at=sent_at,
    )
