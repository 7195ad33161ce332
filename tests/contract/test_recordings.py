"""pvesim answers as the recorded Proxmox VE 9.2 does: overall, by family, under other names, and from state alone."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import report
from tests.contract.differences import ARGUED, BY_CHANCE
from tests.contract.naming import RENAMED
from tests.contract.recordings import load
from tests.contract.replaying import Outcome, replay

SIMULATOR = Path(__file__).parents[1] / "pvesim"
# Of the calls, those that attach, detach, grow, make and free disks, and what rights they take.
_DRIVERS = re.compile(
    r"/qemu/\{vmid\}/(?:config|pending|unlink|resize|move_disk|snapshot\S*|clone|status/current)$|/content|"
    r"^\S+ /access|/cluster/(?:resources|nextid|ha/\S+)$|/status/\w+$"
)
_ROUNDING_PERCENT = 0.05
# Proxmox VE leaves some things to chance (which good disk of a refused batch stays pending), and so does the simulator:
# in a family of this size one answer may come out either way.
_CHANCE_FROM = 40


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return replay()


def test_overall_share_reaches_the_goal_and_is_written_down(outcomes: list[Outcome]) -> None:
    path = report.write_build_report(outcomes)
    overall = json.loads(path.read_text(encoding="utf-8"))[0]

    assert overall["name"] == "contract: overall"
    assert overall["ok"], f"{overall['value']} % equal, the goal is {overall['goal']} %"


def test_no_family_falls_below_what_it_reached_before(outcomes: list[Outcome]) -> None:
    figures, sizes = report.percents(outcomes), Counter(outcome.family for outcome in outcomes)
    fallen = {
        family: f"{figures[family]} % now, {floor} % before"
        for family, floor in report.read_floors().items()
        if figures[family] < floor - _slack_percent(sizes[family] or len(outcomes))
    }

    assert not fallen, f"see `python -m tests.contract --family ... --verbose`: {fallen}"


def _slack_percent(size: int) -> float:
    return 100 / size + _ROUNDING_PERCENT if size >= _CHANCE_FROM else _ROUNDING_PERCENT


def test_every_difference_is_argued_and_nothing_that_is_equal(outcomes: list[Outcome]) -> None:
    unequal = {outcome.recording.number for outcome in outcomes if not outcome.equal}

    assert unequal - BY_CHANCE == set(ARGUED), "see tests/contract/differences.py"


def test_the_families_that_a_driver_lives_on_are_equal_throughout(outcomes: list[Outcome]) -> None:
    """Configuration writes, pending, locks, permissions and volumes: nothing but chance and machine faults."""
    figures = Counter(
        outcome.family
        for outcome in outcomes
        if not outcome.equal and outcome.recording.number not in BY_CHANCE and _DRIVERS.search(outcome.family)
    )
    # Two texts of the stand-in for lvm2.
    assert figures == {"POST /nodes/{node}/storage/{storage}/content": 2}


def test_every_family_has_a_floor(outcomes: list[Outcome]) -> None:
    assert report.percents(outcomes).keys() == report.read_floors().keys()


def test_other_ids_and_names_give_the_same_answers(outcomes: list[Outcome]) -> None:
    renamed = replay(RENAMED)

    assert [o.recording.number for o in renamed if o.equal] == [o.recording.number for o in outcomes if o.equal]


def test_renaming_leaves_no_recorded_name_in_the_requests() -> None:
    paths = " ".join(RENAMED.text(recording.path) for recording in load())

    assert not re.search(r"/nodes/pve[1-3]|/qemu/(?:110|9001)\b|/storage/(?:local|shared)\b", paths)


def test_the_simulator_holds_no_recorded_answer() -> None:
    sources = {
        path: path.read_text(encoding="utf-8") for path in SIMULATOR.rglob("*") if path.suffix in (".py", ".json")
    }
    # The digest of an empty file is a rule, whoever recorded it.
    told = set(_telling_texts()) - {hashlib.sha1(b"", usedforsecurity=False).hexdigest()}

    copied = {text: str(path) for path, source in sources.items() for text in told if text in source}
    readers = [str(path) for path, source in sources.items() if "recordings" in source and "jsonl" in source]

    assert not copied
    assert not readers


def _telling_texts() -> Iterator[str]:
    """Recorded texts that hold an id of the recorded installations, so that no rule could have them word for word."""
    for recording in load():
        for text in _strings(recording.body):
            for line in text.splitlines():
                if re.search(
                    r"[0-9a-f]{8}-[0-9a-f]{4}-|\b[0-9a-f]{40}\b|UPID:|\b(?:vm|base)-\d{3,}-|/vms/\d{3,}|\b1\d{8}\b",
                    line,
                ):
                    yield line


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
