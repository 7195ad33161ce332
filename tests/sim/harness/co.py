"""The container orchestrator: what Kubernetes' sidecars and controllers do with claims, as far as a driver sees it.

Calls are repeated with back-off until they succeed, have deadlines after which nobody listens, and may be doubled. A
disk is detached everywhere before it is wanted elsewhere, except for the rude calls that an operation asks for. Success
is judged at once, on the true state; what is no success is believed as the sidecars believe it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from appkit.errors import DriverError
from csikit.pb import csi_pb2
from csikit.status import StatusTable
from tests.pvesim.world import World
from tests.sim.harness import judge
from tests.sim.harness.ledger import Attachment, Claim, Ledger, at
from tests.sim.harness.programs import Controller
from tests.sim.harness.stage import REGION, node_name
from tests.sim.harness.virtual import VirtualLoop

_Mode: Final = csi_pb2.VolumeCapability.AccessMode
# external-provisioner: after these a volume may exist or come to be, and the same call is made again for as long as
# it takes; after any other error nothing exists.
_IN_PROGRESS: Final = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED"})
_TABLE: Final = StatusTable()
_BUGS: Final = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS"})

Judge = Callable[[Any, float], None]


class Orchestrator:
    """One episode's. `tick` starts the calls that are due; they end by themselves."""

    def __init__(self, loop: VirtualLoop, world: World, controller: Controller, ledger: Ledger) -> None:
        self._loop = loop
        self._world = world
        self._controller = controller
        self._ledger = ledger
        self._running: dict[tuple[Claim, str], list[asyncio.Task[str]]] = {}
        self.deadline_s = 15.0
        self.longest_wait_s = 30.0

    # What is wanted

    def claim_in(self, slot: int) -> Claim | None:
        """The slot's claim, unless it is gone."""
        found = next((claim for claim in reversed(self._ledger.claims) if claim.slot == slot), None)
        return found if found is not None and found.phase != "gone" else None

    def create(self, claim: Claim) -> None:
        self._ledger.claims.append(claim)

    def attach(self, claim: Claim, vmid: int, *, rude: bool = False, bare_id: bool = False) -> None:
        """Want the volume in a VM. Not while it is wanted in, or not yet gone from, another, unless `rude`."""
        if claim.phase != "bound" or not claim.wanted or vmid in claim.attachments:
            return
        if claim.attachments and not rude:
            return
        claim.attachments[vmid] = Attachment(vmid, bare_id=bare_id, next_at=self._loop.time())
        if rude:
            self._publish(claim, claim.attachments[vmid], then_unwanted=True)

    def detach(self, claim: Claim) -> None:
        for attachment in claim.attachments.values():
            if attachment.wanted:
                attachment.wanted, attachment.next_at, attachment.tries = False, self._loop.time(), 0

    def grow(self, claim: Claim, by_bytes: int) -> None:
        if claim.phase == "bound" and claim.wanted:
            claim.grow_to_bytes = max(claim.held_bytes, claim.grow_to_bytes) + by_bytes
            claim.grow_next_at = self._loop.time()

    def delete(self, claim: Claim) -> None:
        claim.wanted, claim.next_at = False, self._loop.time()
        self.detach(claim)

    def delete_rudely(self, claim: Claim) -> None:
        """DeleteVolume while it is attached, which no driver may do."""
        published = any(attachment.published for attachment in claim.attachments.values())
        if claim.phase == "bound" and published and not self._is_running(claim, "delete"):
            self._delete(claim)

    def repeat(self, claim: Claim) -> None:
        """Make each call that runs for the claim a second time."""
        for (owner, kind), tasks in list(self._running.items()):
            if owner is claim and tasks:
                attachment = claim.attachments.get(int(kind.partition(" ")[2] or 0))
                if kind.startswith("publish") and attachment is not None:
                    self._publish(claim, attachment)
                elif kind.startswith("unpublish") and attachment is not None:
                    self._unpublish(claim, attachment)
                elif kind == "create":
                    self._create(claim)
                elif kind == "delete":
                    self._delete(claim)
                elif kind == "grow":
                    self._grow(claim)

    def give_up(self, claim: Claim) -> None:
        """Stop listening to each call that runs for the claim, as a sidecar that is restarted."""
        for (owner, _), tasks in self._running.items():
            if owner is claim:
                for task in tasks:
                    task.cancel()

    # What is done

    @property
    def idle(self) -> bool:
        return not any(self._running.values())

    async def aclose(self) -> None:
        tasks = [task for running in self._running.values() for task in running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tick(self) -> None:
        """Start every call that is due."""
        for claim in self._ledger.claims:
            if claim.phase == "new":
                self._tick_new(claim)
            elif claim.phase == "bound":
                self._tick_bound(claim)

    def _tick_new(self, claim: Claim) -> None:
        if self._is_running(claim, "create"):
            return
        if not claim.wanted and not claim.unclear:
            self._end(claim)
        elif self._loop.time() >= claim.next_at:
            self._create(claim)

    def _tick_bound(self, claim: Claim) -> None:
        now = self._loop.time()
        for attachment in list(claim.attachments.values()):
            if now < attachment.next_at or self._is_running(claim, f"publish {attachment.vmid}"):
                continue
            if attachment.wanted and not attachment.published:
                self._publish(claim, attachment)
            elif not attachment.wanted and not attachment.begun:
                del claim.attachments[attachment.vmid]
            elif not attachment.wanted and not self._is_running(claim, f"unpublish {attachment.vmid}"):
                self._unpublish(claim, attachment)
        if not claim.wanted and not claim.attachments:
            if now >= claim.next_at and not self._is_running(claim, "delete"):
                self._delete(claim)
        elif (
            claim.grow_to_bytes > claim.held_bytes
            and now >= claim.grow_next_at
            and any(each.published for each in claim.attachments.values())
            and not self._is_running(claim, "grow")
        ):
            self._grow(claim)

    def _is_running(self, claim: Claim, kind: str) -> bool:
        return bool(self._running.get((claim, kind)))

    def _end(self, claim: Claim) -> None:
        claim.phase = "gone"

    def _wait_s(self, tries: int) -> float:
        return min(0.5 * 2.0**tries, self.longest_wait_s)

    # The calls

    def _create(self, claim: Claim) -> None:
        request = csi_pb2.CreateVolumeRequest(
            name=claim.name,
            volume_capabilities=[_capability(claim)],
            parameters={
                "storage": claim.storage,
                **({"storageFormat": claim.image_format} if claim.image_format else {}),
            },
            capacity_range=csi_pb2.CapacityRange(required_bytes=claim.size_bytes, limit_bytes=claim.limit_bytes),
        )
        for zone in claim.zones:
            segment = {"topology.kubernetes.io/region": REGION, "topology.kubernetes.io/zone": zone}
            for where in ("requisite", "preferred"):
                getattr(request.accessibility_requirements, where).append(csi_pb2.Topology(segments=segment))
        claim.begun = claim.unclear = True

        def judged(reply: csi_pb2.CreateVolumeResponse, began_at: float) -> None:
            judge.created(self._world, self._ledger, claim, reply)

        self._call(claim, "create", "CreateVolume", request, judged, lambda code: self._created(claim, code))

    def _created(self, claim: Claim, code: str) -> None:
        if code == "OK":
            claim.phase, claim.unclear, claim.tries = "bound", False, 0
            return
        claim.tries += 1
        claim.next_at = self._loop.time() + self._wait_s(claim.tries)
        # ResourceExhausted lets the scheduler choose another host, so it is an end, too, where a host was chosen.
        if code not in _IN_PROGRESS and not self._is_running(claim, "create"):
            claim.unclear = False
            judge.nothing_made(self._world, self._ledger, claim, code)

    def _publish(self, claim: Claim, attachment: Attachment, *, then_unwanted: bool = False) -> None:
        node = node_name(attachment.vmid)
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=claim.handle,
            node_id=node if attachment.bare_id else f"{node}/{attachment.vmid}",
            volume_capability=_capability(claim),
            volume_context=claim.context,
        )
        attachment.begun = True

        def judged(reply: csi_pb2.ControllerPublishVolumeResponse, began_at: float) -> None:
            judge.published(self._world, self._ledger, claim, attachment, reply, began_at)

        def ended(code: str) -> None:
            if code == "OK":
                attachment.published, attachment.tries = True, 0
            self._back_off(attachment, code)
            if then_unwanted:
                attachment.wanted = False

        kind = f"publish {attachment.vmid}"
        self._call(claim, kind, "ControllerPublishVolume", request, judged, ended)

    def _unpublish(self, claim: Claim, attachment: Attachment) -> None:
        node = node_name(attachment.vmid)
        request = csi_pb2.ControllerUnpublishVolumeRequest(
            volume_id=claim.handle, node_id=node if attachment.bare_id else f"{node}/{attachment.vmid}"
        )
        attachment.live = False

        def judged(reply: Any, began_at: float) -> None:
            judge.unpublished(self._world, self._ledger, claim, attachment, began_at)

        def ended(code: str) -> None:
            if code == "OK":
                claim.attachments.pop(attachment.vmid, None)
            self._back_off(attachment, code)

        kind = f"unpublish {attachment.vmid}"
        self._call(claim, kind, "ControllerUnpublishVolume", request, judged, ended)

    def _back_off(self, attachment: Attachment, code: str) -> None:
        if code != "OK":
            attachment.tries += 1
            attachment.next_at = self._loop.time() + self._wait_s(attachment.tries)

    def _grow(self, claim: Claim) -> None:
        wanted_bytes = claim.grow_to_bytes
        request = csi_pb2.ControllerExpandVolumeRequest(
            volume_id=claim.handle,
            capacity_range=csi_pb2.CapacityRange(required_bytes=wanted_bytes),
            volume_capability=_capability(claim),
        )

        def judged(reply: csi_pb2.ControllerExpandVolumeResponse, began_at: float) -> None:
            judge.grown(self._world, self._ledger, claim, wanted_bytes, reply, began_at)

        def ended(code: str) -> None:
            claim.grow_next_at = self._loop.time() + 3.0
            if code == "OK" and claim.grow_to_bytes <= wanted_bytes:
                claim.grow_to_bytes = 0

        self._call(claim, "grow", "ControllerExpandVolume", request, judged, ended)

    def _delete(self, claim: Claim) -> None:
        request = csi_pb2.DeleteVolumeRequest(volume_id=claim.handle)
        claim.deleting = True

        def judged(reply: Any, began_at: float) -> None:
            judge.deleted(self._world, self._ledger, claim, began_at)

        def ended(code: str) -> None:
            if code == "OK":
                self._end(claim)
            else:
                claim.delete_unclear = claim.delete_unclear or code in _IN_PROGRESS
                claim.deleting = claim.delete_unclear or self._is_running(claim, "delete")
                claim.tries += 1
                claim.next_at = self._loop.time() + self._wait_s(claim.tries)

        self._call(claim, "delete", "DeleteVolume", request, judged, ended)

    def _call(
        self, claim: Claim, kind: str, verb: str, request: Any, judged: Judge, ended: Callable[[str], None]
    ) -> None:
        tasks = self._running.setdefault((claim, kind), [])

        async def whole() -> str:
            began_at = self._loop.time()
            code, text = "CANCELLED", ""
            try:
                code, text = await self._exchange(verb, request, lambda reply: judged(reply, began_at))
            finally:
                tasks.remove(task)
                self._ledger.count(verb, code)
                self._ledger.trace.append(
                    at(self._loop.time(), " ", claim.name, kind, "->", code, f"[{began_at:.3f}]", text)
                )
                claim.last_error = f"{kind}: {code} {text}"
                if code in _BUGS:
                    self._ledger.break_off(f"{verb} of {claim.name} failed by a fault of the driver: {code} {text}")
                ended(code)
            return code

        task = self._loop.spawn(None, whole())
        tasks.append(task)

    async def _exchange(self, verb: str, request: Any, judged: Callable[[Any], None]) -> tuple[str, str]:
        """One call as a sidecar makes it: code and text. A reply is judged where it is made, before time can pass."""
        method, process = self._controller.find_method(verb), self._controller.process
        if method is None or process is None:
            return "UNAVAILABLE", "nobody listens"

        async def served() -> None:
            judged(await method(request, None))

        serving = self._loop.spawn(process, served())
        serving.add_done_callback(_retrieve)
        try:
            await asyncio.wait({serving}, timeout=self.deadline_s)
        finally:
            if not serving.done():
                serving.cancel()
        if not serving.done():
            return "DEADLINE_EXCEEDED", f"after {self.deadline_s:g} s"
        if serving.cancelled():
            return "UNAVAILABLE", "the connection broke"
        error = serving.exception()
        if error is None:
            return "OK", ""
        code = _TABLE.find_code(error)
        return (code.name if code is not None and isinstance(error, DriverError) else "UNKNOWN"), (
            str(error) if isinstance(error, DriverError) else repr(error)
        )


def _retrieve(serving: asyncio.Task[None]) -> None:
    """Whoever asked may have given up just when the answer came."""
    if not serving.cancelled():
        serving.exception()


def _capability(claim: Claim) -> csi_pb2.VolumeCapability:
    message = csi_pb2.VolumeCapability(access_mode=_Mode(mode=_Mode.SINGLE_NODE_WRITER))
    if claim.fs_type:
        message.mount.fs_type = claim.fs_type
    else:
        message.block.SetInParent()
    return message
