"""A small budget of the harness in each test run, and the proof that it would notice.

`make simulate SEED= OPS=` plays as much as one asks; a failure here is repeated by the command it prints.
"""

import asyncio

import pytest

from tests.sim.harness.episode import play
from tests.sim.harness.faults import Fault, FaultPlan
from tests.sim.harness.ops import draw
from tests.sim.harness.plants import PLANTS
from tests.sim.harness.run import EPISODE_OPS, shortest
from tests.sim.harness.shrink import shrink
from tests.sim.harness.stage import HOSTS, STORAGES, VMIDS, new_world
from tests.sim.harness.virtual import Process, Standstill, VirtualLoop


@pytest.mark.parametrize("seed", [1, 2])
def test_an_episode_breaks_nothing(seed: int) -> None:
    outcome = play(seed, draw(seed, EPISODE_OPS))
    assert outcome.problems == [], f"python -m tests.sim.harness --seed {seed} --ops {EPISODE_OPS} --jobs 1"
    succeeded = {verb for verb, code in outcome.calls if code == "OK"}
    assert succeeded == {
        "CreateVolume",
        "DeleteVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "ControllerExpandVolume",
    }
    assert outcome.kills > 0
    assert outcome.virtual_s > 600


def test_the_same_seed_is_the_same_run() -> None:
    one, two = (play(7, draw(7, 150)) for _ in range(2))
    assert one.trace == two.trace
    assert one.requests == two.requests
    assert play(8, draw(8, 150)).trace != one.trace


def test_the_stage_is_of_the_size_that_was_asked_for() -> None:
    world = new_world(1)
    assert (len(list(world.nodes)), len(world.vms), len(STORAGES)) == (3, 8, 5)
    assert set(world.vms) == set(VMIDS)
    assert {each.name for each in STORAGES} <= set(world.storages.definitions)
    assert {node.name for node in world.nodes} == set(HOSTS)


# Where to look first; if a change of the programs moves it, the search goes on for as long as the promise says.
_PROMISED_OPS = 20_000
_LIKELY = {"drop-the-digest": (2, 3, 4), "trust-the-list": (16, 11, 30), "ignore-the-end": (9, 17)}
_WORDS = {"drop-the-digest": "foreign disk", "trust-the-list": "answered OK", "ignore-the-end": "answered OK"}


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_a_planted_fault_is_found(plant: str) -> None:
    for seed in [*_LIKELY[plant], *range(1, _PROMISED_OPS // EPISODE_OPS + 1)]:
        problems = play(seed, draw(seed, EPISODE_OPS), PLANTS[plant]).problems
        if problems:
            assert _WORDS[plant] in problems[0]
            assert play(seed, draw(seed, EPISODE_OPS)).problems == [], "it was not the plant"
            return
    pytest.fail(f"{plant} was not found within {_PROMISED_OPS} operations")


def test_a_failure_is_shortened_and_still_fails() -> None:
    plant = "drop-the-digest"
    seed = next(seed for seed in range(2, 50) if play(seed, draw(seed, EPISODE_OPS), PLANTS[plant]).problems)
    ops, outcome = shortest(seed, EPISODE_OPS, plant, attempts=60)
    assert len(ops) < 40
    assert outcome.problems
    assert play(seed, ops, PLANTS[plant]).trace == outcome.trace


def test_shrinking_leaves_only_what_is_needed() -> None:
    assert shrink(list(range(100)), lambda some: {3, 40, 77} <= set(some)) == [3, 40, 77]


def test_a_fault_meets_the_nth_request_that_fits() -> None:
    plan = FaultPlan()
    plan.add(Fault("cut_before", r"^POST .*/config$", nth=2))
    met = [plan.take("POST", "/nodes/pve1/qemu/111/config") is not None for _ in range(3)]
    assert met == [False, True, False]
    assert plan.take("GET", "/version") is None


def test_time_jumps_and_a_killed_process_takes_its_tasks_along() -> None:
    loop, process, seen = VirtualLoop(), Process("p"), list[str]()

    async def child() -> None:
        await asyncio.sleep(50)
        seen.append("never")

    async def parent() -> None:
        inner = asyncio.create_task(child())  # belongs to the process, since its creator does
        await asyncio.sleep(3600)
        await inner

    async def main() -> None:
        loop.spawn(process, parent())
        await asyncio.sleep(10)
        await process.kill()
        await asyncio.sleep(100)

    loop.run_until_complete(main())
    assert (loop.time(), seen) == (110.0, [])
    with pytest.raises(Standstill):
        loop.run_until_complete(asyncio.Event().wait())
    loop.finish()
