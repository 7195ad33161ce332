"""The log of requests, split in foreground, task polls and background, so that tests can hold a request budget."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["foreground", "poll", "background"]
_TASK_POLL = re.compile(r"/nodes/[^/]+/tasks/[^/]+/(status|log)")


@dataclass
class Entry:
    """One request and how it was answered (status 0: not yet, or never); `path` is below /api2/json, without the query.

    No credential is kept.
    """

    number: int
    at: float
    kind: Kind
    method: str
    path: str
    params: Mapping[str, str]
    auth_id: str = ""
    status: int = 0
    reason: str = ""


def kind_of(method: str, path: str, user_agent: str) -> Kind:
    """Background says so at the end of its User-Agent; polls are reads of a task's status or log, or say so too."""
    if "(background)" in user_agent:
        return "background"
    if "(poll)" in user_agent or (method == "GET" and _TASK_POLL.fullmatch(path)):
        return "poll"
    return "foreground"


class RequestLog:
    """All requests since the world began, in the order they came in."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def add(self, entry: Entry) -> None:
        """Append one."""
        self._entries.append(entry)

    def since(self, mark: int, kind: Kind | None = None) -> list[Entry]:
        """Entries after `mark` (a former `len(log)`), of one kind or of all."""
        return [entry for entry in self._entries[mark:] if kind in (None, entry.kind)]

    def count(self, kind: Kind | None = None, *, since: int = 0) -> int:
        """How many there are."""
        return len(self.since(since, kind))

    def clear(self) -> None:
        """Forget everything; marks taken before are void."""
        self._entries.clear()
