"""One episode: a world, both programs, a list of operations, and the end at which everything must be gone.

After each operation the invariants are checked, each success is judged as it is said; the first that is broken ends the
episode. Then all faults end, others put right what they did, and every claim is deleted: whatever is left after that is
a broken promise, too.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.kubesim import Cluster
from tests.sim.harness import invariants
from tests.sim.harness.acts import Acts
from tests.sim.harness.admin import Admin
from tests.sim.harness.co import Orchestrator
from tests.sim.harness.ledger import Ledger, at
from tests.sim.harness.ops import Op
from tests.sim.harness.programs import CloudManager, Controller, Plant
from tests.sim.harness.stage import VMIDS, kube_node, new_world
from tests.sim.harness.virtual import Standstill, VirtualClock, VirtualLoop

# Every claim must be gone this long after the last fault: the slots' rests, the longest back-off and time-outs in it.
_CONVERGE_S = 1800.0
_SETTLE_S = 900.0


@dataclass
class Outcome:
    """What came of an episode: `problems` empty when all held. `virtual_s` is the time that passed in it."""

    problems: list[str]
    trace: list[str]
    calls: dict[tuple[str, str], int]
    virtual_s: float
    requests: int
    kills: int


def play(seed: int, ops: Sequence[Op], plant: Plant | None = None) -> Outcome:
    """Play one episode; the same arguments always come to the same outcome."""
    random.seed(seed)
    loop = VirtualLoop()
    episode = _Episode(loop, seed, plant)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        asyncio.set_event_loop(None)
        try:
            loop.run_until_complete(episode.run(ops))
        except Standstill as error:
            episode.ledger.break_off(str(error))
        return episode.outcome()
    finally:
        loop.finish()
        logging.disable(before)


class _Episode:
    def __init__(self, loop: VirtualLoop, seed: int, plant: Plant | None) -> None:
        self._loop = loop
        self.ledger = Ledger()
        self._world = new_world(seed)
        self._kube = Cluster([kube_node(vmid, 0) for vmid in VMIDS], seed=seed, clock=VirtualClock(loop))
        self._controller = Controller(loop, self._world, self._kube, plant)
        self._manager = CloudManager(loop, self._world, self._kube)
        self._co = Orchestrator(loop, self._world, self._controller, self.ledger)
        self._admin = Admin(loop, self._world, self._kube, self.ledger)
        self._acts = Acts(self._world, self._kube, self.ledger, self._controller, self._manager, self._co, self._admin)

    async def run(self, ops: Sequence[Op]) -> None:
        self._controller.start()
        self._manager.start()
        try:
            await asyncio.sleep(2.0)
            for op in ops:
                self.ledger.trace.append(at(self._loop.time(), op))
                self._acts.perform(op, self._loop.time())
                await self._step(op.pause_s)
                if self.ledger.problems:
                    return
            await self._converge()
        finally:
            await self._controller.stop()
            await self._manager.stop()
            await self._co.aclose()
            await self._admin.aclose()
            await self._world.aclose()

    async def _step(self, pause_s: float) -> None:
        """Let time pass; the orchestrator looks at its work every second at least."""
        end = self._loop.time() + pause_s
        while True:
            self._co.tick()
            await asyncio.sleep(min(1.0, max(0.0, end - self._loop.time())))
            self._check()
            if self.ledger.problems or self._loop.time() >= end:
                return

    def _check(self) -> None:
        invariants.check(self._world, self._kube, self.ledger, self._loop.time())
        for fault in self._loop.faults:
            self.ledger.break_off(f"nobody caught: {fault}")

    async def _converge(self) -> None:
        self.ledger.trace.append(at(self._loop.time(), "faults end, everything shall go"))
        self._controller.faults.clear()
        self._manager.faults.clear()
        self._kube.faults.clear()
        self._world.quorate = True
        self._world.storages.locked.clear()
        for node in self._world.nodes:
            self._world.broadcasts.darken(node.name, "")
        self._acts.restore_rights()
        await self._admin.put_right()
        for vmid in VMIDS:
            self._admin.create(vmid)
        self._co.longest_wait_s = 10.0
        if not await self._until_nothing(self._undone, _SETTLE_S, "is still not done"):
            return
        for claim in self.ledger.claims:
            if claim.phase != "gone":
                self._co.delete(claim)
        await self._until_nothing(self._left, _CONVERGE_S, "is still there")

    async def _until_nothing(self, left: Callable[[], list[str]], longest_s: float, complaint: str) -> bool:
        """Go on until `left` is empty; False when that took too long, or something else broke."""
        end = self._loop.time() + longest_s
        while self._loop.time() < end:
            await self._admin.tidy()
            await self._step(10.0)
            if self.ledger.problems:
                return False
            if not left():
                return True
        for text in left():
            self.ledger.break_off(f"{longest_s:.0f} s after the last fault {complaint}: {text}")
        return False

    def _undone(self) -> list[str]:
        """What claims want and can have, and have not got."""
        undone = []
        for claim in self.ledger.claims:
            if claim.phase == "gone" or claim.deleting:
                continue
            if claim.phase == "new" and claim.unclear:
                undone.append(f"creation of {claim.name}: {claim.last_error}")
            for attachment in claim.attachments.values():
                vm = self._world.vms.get(attachment.vmid)
                reachable = vm is not None and claim.key[1] in ("", vm.node) and len(claim.attachments) == 1
                if reachable and attachment.wanted and not attachment.published:
                    undone.append(f"attaching {claim.name} to {attachment.vmid}: {claim.last_error}")
                if attachment.live and claim.wanted and claim.grow_to_bytes > claim.held_bytes:
                    undone.append(f"growing {claim.name} to {claim.grow_to_bytes}: {claim.last_error}")
        return undone

    def _left(self) -> list[str]:
        left = [
            f"{claim.name} ({claim.phase}, attached to {sorted(claim.attachments)}): {claim.last_error}"
            for claim in self.ledger.claims
            if claim.phase != "gone"
        ]
        left += [f"volume {key}" for key, volume in self._world.storages.volumes.items() if volume.owner == 9999]
        left += [f"Node {name} is not initialised" for name in invariants.nodes_waiting(self._kube)]
        if self._controller.process is None or self._manager.process is None:
            left.append("a program does not run")
        return left

    def outcome(self) -> Outcome:
        return Outcome(
            list(dict.fromkeys(self.ledger.problems)),
            self.ledger.trace,
            self.ledger.calls,
            self._loop.time(),
            len(self._world.log),
            self._controller.lives - 1,
        )
