"""The fake cluster a test holds: its objects, its faults, its request log, and what a test may do to it.

Both doors (HTTP, in-process) lead through `exchange` and `stream` here, so that faults and log are the same on either.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from appkit.clock import Clock, SystemClock
from tests.kubesim.api import Api, Cut, Request, WatchControl
from tests.kubesim.faults import Faults
from tests.kubesim.problems import status_object
from tests.kubesim.resources import Resource, parse_path
from tests.kubesim.store import Object, Store


@dataclass
class Entry:
    """One request of the log; `status` is 0 when it got no answer. A watch is entered when it begins."""

    at: float
    verb: str
    path: str
    resource: str
    params: dict[str, str]
    body: Any
    user_agent: str
    status: int = 0


class Cluster:
    """`state`: objects that exist at the start. `bookmark_s`: how often a silent watch is sent a bookmark."""

    def __init__(
        self,
        state: Iterable[Mapping[str, Any]] = (),
        *,
        seed: int = 0,
        bookmark_s: float = 60,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.store = Store(seed=seed, clock=self._clock)
        self.api = Api(self.store, bookmark_s=bookmark_s)
        self.faults = Faults()
        self.log: list[Entry] = []
        self._watches: set[WatchControl] = set()
        for obj in state:
            self.apply(obj)

    # What others do to the objects

    def apply(self, obj: Mapping[str, Any]) -> Object:
        """Create or replace an object as it stands, status included."""
        return self.store.apply(dict(obj))

    def get(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> Object | None:
        """The stored object, or None. Not to be changed."""
        return self.store.find(Resource(group, plural), (namespace, name))

    def items(self, plural: str, *, namespace: str | None = None, group: str = "") -> list[Object]:
        """All stored objects of a resource."""
        return self.store.items(Resource(group, plural), namespace)

    def delete(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> None:
        """Delete an object."""
        self.store.delete(Resource(group, plural), (namespace, name))

    # What happens to the server

    def cut_watches(self) -> int:
        """Break the connection of every running watch; how many there were."""
        for control in self._watches:
            control.cut()
        return len(self._watches)

    def end_watches(self) -> int:
        """End every running watch properly, as after its time-out; how many there were."""
        for control in self._watches:
            control.end()
        return len(self._watches)

    def expire(self) -> None:
        """Forget the history and end the watches: whoever comes back with an old version gets 410."""
        self.api.forget_history()
        self.end_watches()

    def count(self, verb: str = "*", resource: str = "*", *, since: int = 0) -> int:
        """Requests in the log from entry number `since` on."""
        return sum(verb in ("*", each.verb) and resource in ("*", each.resource) for each in self.log[since:])

    # What the doors call

    async def exchange(self, request: Request, *, user_agent: str) -> tuple[int, Any] | None:
        """Log the request and answer it with status and JSON value, or None for a watch, to be streamed; raises Cut."""
        target = parse_path(request.path)
        resource = ""
        if target is not None:
            resource = target.resource.label + (f"/{target.subresource}" if target.subresource else "")
        entry = Entry(
            self._clock.monotonic(),
            request.verb,
            request.path,
            resource,
            dict(request.params),
            request.body,
            user_agent,
        )
        self.log.append(entry)
        action = self.faults.action_for(request.verb, request.path)
        if action is not None and action.kind == "delay":
            await self._clock.sleep(action.seconds)
        if action is not None and action.kind == "cut_before":
            raise Cut
        if action is not None and action.kind == "answer":
            entry.status = action.status
            return action.status, status_object(action.status, action.message, reason=action.reason)
        if request.verb == "watch" and target is not None:
            entry.status = 200
            return None
        answer = self.api.answer(request)
        if action is not None and action.kind == "cut_after":
            raise Cut
        entry.status = answer[0]
        return answer

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch; raises Cut."""
        control = WatchControl()
        self._watches.add(control)
        try:
            async with aclosing(self.api.watch(request, control)) as lines:
                async for line in lines:
                    yield line
        finally:
            self._watches.discard(control)
