"""Sends the recorded requests, in order, to fresh simulated worlds and compares the answers.

Identifiers that a world makes up (UPIDs, digests, token secrets, tickets) are carried over from the recorded to the
simulated ones. Time is virtual: a request is sent when it was sent then, counted from the first. Must not change an
answer, and must not tell the world what was recorded.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import quote, unquote, urlencode

import looptime

from tests.contract.comparing import Answer, differences, parse_body
from tests.contract.credentials import Credentials
from tests.contract.families import family_of
from tests.contract.naming import AS_RECORDED, Naming
from tests.contract.outside import Scene
from tests.contract.recordings import Place, Recording, load
from tests.contract.script import MEANWHILE, edits_before
from tests.contract.starting import starting_world
from tests.pvesim.errors import Cut
from tests.pvesim.requests import SimRequest
from tests.pvesim.world import World

# No recorded request took longer.
_GIVE_UP_S = 120.0
_TASK_LIMIT_S = 600.0
_DIGEST = re.compile(r"\b[0-9a-f]{40}\b")
# Sent while a task of an earlier request was still at work; before any other the recorder waited for its tasks.
_MEANWHILE = re.compile(
    r"\bduring\b|being copied|stop own task|abort migration|parallel|\bcopy \(storage lock|migrate HA VM back"
)


@dataclass(frozen=True)
class Outcome:
    """One replayed recording; `unequal` empty means equal."""

    recording: Recording
    family: str
    simulated: Answer
    unequal: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether the answers are equal in the sense of `comparing`."""
        return not self.unequal


@dataclass
class _Stage:
    """One world and what was carried over so far."""

    scene: Scene
    begin: float
    upids: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    # What the recorder counted seconds from -> when that was on the world's clock.
    zeros: dict[str, float] = field(default_factory=dict)


def replay(naming: Naming = AS_RECORDED) -> list[Outcome]:
    """Every recording replayed, in order of the file."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(_replay(naming))


async def _replay(naming: Naming) -> list[Outcome]:
    outcomes: list[Outcome] = []
    places: tuple[Place, ...] = ("single", "cluster")
    for place in places:
        recordings = [recording for recording in load() if recording.place == place]
        world = starting_world(place, naming)
        scene = Scene(world, naming, Credentials(world), world.nodes.first.name)
        stage = _Stage(scene, recordings[0].sent_at)
        outcomes += [await _play(stage, recording) for recording in _winners_first(recordings)]
        await world.aclose()
    return sorted(outcomes, key=lambda outcome: outcome.recording.number)


def _winners_first(recordings: Sequence[Recording]) -> Iterator[Recording]:
    """Of requests that were sent at once and are the same, one wins by chance: here the one that won then."""
    for _, same in groupby(recordings, key=_race):
        yield from sorted(same, key=lambda recording: recording.status)


def _race(recording: Recording) -> object:
    if "parallel" not in recording.note:
        return recording.number
    return recording.note, recording.method, recording.path, str(recording.params)


async def _play(stage: _Stage, recording: Recording) -> Outcome:
    scene, naming = stage.scene, stage.scene.naming
    await _wait_until_sent(stage, recording)
    for edit in MEANWHILE.get(recording.number, ()):
        await edit(scene)
    await _wait_for_tasks(stage, recording)
    for edit in edits_before(recording):
        await edit(scene)
    if recording.polled_upid and recording.polled_upid not in stage.upids and scene.sent_upid:
        stage.upids[recording.polled_upid] = scene.sent_upid
        scene.sent_upid = ""
    expected = Answer(recording.status, naming.text(recording.reason), naming.value(recording.body))
    _learn_digest(stage, recording)
    actual = await _send(scene.world, _request(stage, recording))
    _carry_over(stage, recording.body, actual.body)
    return Outcome(recording, family_of(recording), actual, tuple(differences(expected, actual)))


async def _wait_until_sent(stage: _Stage, recording: Recording) -> None:
    now = stage.scene.world.clock.monotonic()
    ahead = recording.sent_at - stage.begin - now
    if since := recording.since:
        # The world's clock may be ahead by then; what is counted from an event is counted from there.
        what, seconds = since
        if not seconds:
            stage.zeros[what] = max(now, now + ahead)
        ahead = max(ahead, stage.zeros[what] + seconds - now)
    if ahead > 0:
        await asyncio.sleep(ahead)


async def _wait_for_tasks(stage: _Stage, recording: Recording) -> None:
    world = stage.scene.world
    polled = world.tasks.by_upid.get(stage.upids.get(recording.polled_upid or "", ""))
    if polled is not None:
        # The recorder polled until the task had ended and kept the last answer.
        await world.tasks.wait(polled, _TASK_LIMIT_S)
    elif not _MEANWHILE.search(recording.note):
        try:
            async with asyncio.timeout(_TASK_LIMIT_S):
                await world.tasks.settle()
        except TimeoutError:
            return


def _request(stage: _Stage, recording: Recording) -> SimRequest:
    naming = stage.scene.naming
    extjs = isinstance(recording.body, dict) and "success" in recording.body
    form = re.fullmatch(r"format (\w+)", recording.note)
    api = form[1] if form else "extjs" if extjs else "json"
    path = naming.text(_carried(stage, recording.path))
    headers = stage.scene.credentials.headers(recording)
    params = {key: _carried_value(stage, naming.value(value, key)) for key, value in recording.params.items()}
    query, body = "", b""
    if recording.raw_body is not None:
        body = naming.text(recording.raw_body).encode()
        headers["content-type"] = recording.raw_type or ""
    elif recording.encoding == "json":
        body = json.dumps(params).encode()
        headers["content-type"] = "application/json"
    elif params and (
        recording.encoding == "query" or (recording.method in ("GET", "DELETE") and recording.encoding == "form")
    ):
        query = urlencode(params)
    elif params:
        body = urlencode(params).encode()
        headers["content-type"] = "application/x-www-form-urlencoded"
    if query:
        path += ("&" if "?" in path else "?") + query
    via = re.search(r"\bvia (192\.0\.2\.\d)", recording.note)
    node = next((node.name for node in stage.scene.world.nodes if via and node.ip == via[1]), stage.scene.entry)
    return SimRequest(recording.method, f"/api2/{api}{quote(path, safe='/%:?&=+,;@!~*()$')}", headers, body, node)


def _carried(stage: _Stage, text: str) -> str:
    """UPIDs and digests of the recording replaced by the world's own."""

    def own_upid(match: re.Match[str]) -> str:
        upid = unquote(match[0])
        return quote(stage.upids.get(upid, upid), safe="")

    text = re.sub(r"UPID(?:%3A|:)[^/?\s]+", own_upid, text)
    return _DIGEST.sub(lambda match: stage.digests.get(match[0], match[0]), text)


def _carried_value(stage: _Stage, value: Any) -> Any:
    return _carried(stage, value) if isinstance(value, str) and _DIGEST.search(value) else value


def _learn_digest(stage: _Stage, recording: Recording) -> None:
    """A digest that no recorded answer held was read just before, by a request that was not recorded."""
    digest = str(recording.params.get("digest", ""))
    match = re.search(r"/qemu/(\d+)/", recording.path)
    if match and digest not in stage.digests and _DIGEST.fullmatch(digest) and digest.strip("0"):
        stage.digests[digest] = stage.scene.vm(int(match[1])).digest


async def _send(world: World, request: SimRequest) -> Answer:
    try:
        async with asyncio.timeout(_GIVE_UP_S):
            response = await world.handle(request)
    except Cut as error:
        return Answer(0, f"connection dropped {error}", "")
    except TimeoutError:
        return Answer(0, "no answer", "")
    except Exception as error:  # noqa: BLE001 - a fault of the simulator is one unequal answer, not the end of the replay
        return Answer(0, f"simulator fault: {error!r}", "")
    return Answer(response.status, response.reason, parse_body(response.body))


def _carry_over(stage: _Stage, recorded: Any, simulated: Any) -> None:
    """Remember which UPID and digest of the world stands for which recorded one."""
    if isinstance(recorded, dict) and isinstance(simulated, dict):
        for key in recorded.keys() & simulated.keys():
            _carry_over(stage, recorded[key], simulated[key])
    elif isinstance(recorded, str) and isinstance(simulated, str):
        if recorded.startswith("UPID:") and simulated.startswith("UPID:"):
            stage.upids[recorded] = simulated
        elif _DIGEST.fullmatch(recorded) and _DIGEST.fullmatch(simulated):
            stage.digests[recorded] = simulated
    elif isinstance(recorded, list) and isinstance(simulated, list):
        by_key = {item.get("key"): item for item in simulated if isinstance(item, dict)}
        for item in recorded:
            if isinstance(item, dict) and item.get("key") == "digest" and "digest" in by_key:
                _carry_over(stage, item, by_key["digest"])
