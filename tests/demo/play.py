"""One step of the story: its gRPC calls, the Proxmox requests it cost, what changed, and whether that was right.

Must not know the story. A call that ends otherwise than it should, or a step that costs more requests than its budget,
ends the demo.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf.message import Message

from tests.demo.csi_door import CsiDoor, Outcome
from tests.demo.processes import DemoError
from tests.demo.pve_door import PveDoor, Request
from tests.demo.screen import Screen, Step

OK = grpc.StatusCode.OK


class Scene:
    """One step while it is played."""

    def __init__(self, step: Step) -> None:
        self._step = step

    async def call(self, door: CsiDoor, method: str, request: Message, shown: str) -> Any:
        """An RPC that must succeed; returns its response."""
        outcome = await door.call(method, request)
        self._record(door, outcome, shown)
        if outcome.code is not OK:
            raise DemoError(
                f"{self._step.title}: {door.name} answered {outcome.code.name}: {outcome.details}", door.name
            )
        return outcome.response

    async def refused(
        self, door: CsiDoor, method: str, request: Message, shown: str, codes: Collection[grpc.StatusCode]
    ) -> str:
        """An RPC that must be refused with one of `codes`; returns the reason."""
        outcome = await door.call(method, request)
        self._record(door, outcome, shown)
        if outcome.code not in codes:
            raise DemoError(
                f"{self._step.title}: {door.name} should have refused with {' or '.join(code.name for code in codes)}, "
                f"but answered {outcome.code.name} {outcome.details}",
                door.name,
            )
        self.saw(f"refused: {outcome.details}")
        return outcome.details

    def saw(self, fact: str) -> None:
        """Something looked up outside the calls."""
        self._step.facts.append(fact)

    def must(self, good: bool, text: str) -> None:
        """Ends the demo unless `good`."""
        if not good:
            raise DemoError(f"{self._step.title}: {text}")

    def _record(self, door: CsiDoor, outcome: Outcome, shown: str) -> None:
        answer = f"{outcome.code.name} in {outcome.seconds * 1000:.0f} ms"
        self._step.calls.append(f"{outcome.method}({shown}) → {answer}   [{door.name}]")


class Play:
    """Plays steps and counts what they cost altogether."""

    def __init__(self, screen: Screen, pve: PveDoor, token_id: str) -> None:
        self._screen = screen
        self._pve = pve
        self._token_id = token_id
        self.steps = 0
        self.foreground = 0

    @asynccontextmanager
    async def scene(self, title: str, *, foreground_max: int) -> AsyncIterator[Scene]:
        """A step whose CSI calls may cost `foreground_max` foreground requests."""
        step = Step(title)
        before = await self._pve.snapshot()
        mark = await self._pve.mark()
        try:
            yield Scene(step)
            requests = [each for each in await self._pve.requests_since(mark) if each.token_id == self._token_id]
            step.changes = (await self._pve.snapshot()).changes_since(before)
            foreground = [each for each in requests if each.kind == "foreground"]
            step.requests = cost(requests)
            self.steps += 1
            self.foreground += len(foreground)
            if len(foreground) > foreground_max:
                raise DemoError(f"{title}: {len(foreground)} foreground requests; at most {foreground_max} are allowed")
        except DemoError:
            self._screen.step(step, good=False)
            raise
        self._screen.step(step)


def cost(requests: Collection[Request]) -> str:
    """Foreground requests in full, the others as numbers."""
    foreground = [f"{each.method} {unquote(each.path)}" for each in requests if each.kind == "foreground"]
    counts = {kind: sum(each.kind == kind for each in requests) for kind in ("poll", "background")}
    parts = [f"{len(foreground)} foreground" + (f": {', '.join(foreground)}" if foreground else "")]
    if counts["poll"]:
        parts.append(f"{counts['poll']} task poll{'s' if counts['poll'] > 1 else ''}")
    if counts["background"]:
        parts.append(f"{counts['background']} background")
    return "; ".join(parts)
