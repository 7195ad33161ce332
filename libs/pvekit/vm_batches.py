"""The queue of one VM's config changes: takes all that wait, and makes them true together.

Knows the order read → write → follow → read, which failures are worth another attempt, and how a bad member of a
batch is found. What a write must hold is `vm_config_plan`'s, whom an error is about is `blame`'s.
"""

import asyncio
import contextvars
import re

from appkit.backoff import Backoff
from appkit.errors import DriverError, FailedPrecondition, NotFound, Unavailable
from appkit.logs import get_logger
from pvekit.blame import blamed, only_about, text_for
from pvekit.errors import (
    DigestMismatch,
    HotplugFailed,
    LockTimeout,
    NoQuorum,
    NotImplementedHere,
    PveError,
    PveUnknownOutcome,
    PveUnreachable,
    ServerFailure,
    TaskFailed,
    TaskTimeout,
    TaskUnknown,
    VmLocked,
    VmNotHere,
)
from pvekit.presence import Absent, Present, Unknown
from pvekit.purpose import purpose
from pvekit.slot_quarantine import SlotQuarantine
from pvekit.vm_batch import Batch, Member, Seen, Tools
from pvekit.vm_changes import LOOK_S, VmChanges
from pvekit.vm_config import VmConfig
from pvekit.vm_config_plan import Plan, Wish, make_plan, traces, why_waiting

_log = get_logger(__name__)

_ATTEMPTS = 5
"""How often a batch begins anew because the config changed, the VM moved, a lock was held or an answer was lost."""
_OTHER_SLOTS = 2
_UNPLUG_TRIES = 2
_UNPLUG_LEAST_S = 1.0
"""Proxmox VE looks once a second whether a disk and then its controller have gone (recorded, 9.2: 2.1 s)."""

_AGAIN = (DigestMismatch, LockTimeout, PveUnknownOutcome, TaskUnknown, VmNotHere)
_WHOLE = (VmLocked, NoQuorum, PveUnreachable, NotImplementedHere)
_MAYBE_PLUGGED = (NoQuorum, PveUnknownOutcome, ServerFailure, TaskFailed, TaskUnknown)
# QEMU kept an object of an earlier drive in this slot: every plug into it fails, into another it does not.
_SLOT_SPOILT = re.compile(r"duplicate", re.IGNORECASE)


class _GoneError(Exception):
    """The VM is proved not to exist."""


class VmBatches:
    """One VM's queue. `fulfil` may be called any number of times at once."""

    def __init__(self, vmid: int, tools: Tools) -> None:
        self._vmid = vmid
        self._tools = tools
        self._name = f"VM {vmid} of region {tools.region}"
        self._queue: list[Member] = []
        self._worker: asyncio.Task[None] | None = None
        self._quarantine = SlotQuarantine(vmid, tools.inventory, tools.clock.monotonic)
        self._readings = 0
        self._changes = VmChanges(vmid, self._name, tools)
        self._quiet = asyncio.Event()

    @property
    def in_use(self) -> bool:
        """Whether this object works, or remembers something that the next change must know."""
        return self._worker is not None or self._changes.running is not None or bool(self._quarantine.keys())

    async def fulfil(self, wish: Wish) -> Seen:
        """Wait until the wish was seen to be true; raises why not. Cancelling the caller leaves the batch alone."""
        waiter: asyncio.Future[Seen] = asyncio.get_running_loop().create_future()
        same = next((member for member in self._queue if member.wish == wish and not member.abandoned), None)
        if same is None:
            self._queue.append(Member(wish, self._readings, [waiter]))
        else:
            same.joined = self._readings
            same.waiters.append(waiter)
        self._quiet.clear()
        if self._worker is None:
            # A context of its own: the work is for all who wait, not only for whoever came first.
            self._worker = asyncio.get_running_loop().create_task(
                self._work(), name=f"config of {self._name}", context=contextvars.Context()
            )
        return await waiter

    def let_rest(self, key: str, since: float) -> None:
        """A slot whose controller the guest did not let go of at that moment, as an earlier process has seen."""
        self._quarantine.add(key, since=since)

    async def stop(self) -> None:
        """End without a result for whoever still waits; for the end of the process."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])

    async def wait_idle(self) -> None:
        """Wait until nobody waits for anything."""
        if self._worker is None:
            return
        quiet = asyncio.ensure_future(self._quiet.wait())
        try:
            await asyncio.wait([quiet, self._worker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            quiet.cancel()

    async def _work(self) -> None:
        try:
            while self._queue or self._changes.unread:
                if self._queue:
                    await self._work_once()
                else:
                    self._quiet.set()
                    with purpose("background"):
                        await self._look_after()
        finally:
            self._worker = None
            self._quiet.set()

    async def _look_after(self) -> None:
        """Find out how a change ended whose callers could not be told: until then its volumes count as this VM's."""
        try:
            await self._changes.wait_for_running()
            if self._changes.running is None:
                batch = Batch(Backoff(0.1, 2.0, 3.0).delays())
                await self._locate(batch)
                await self._read(batch)
        except _GoneError:
            self._changes.forget()
        except DriverError as error:
            _log.debug("state of the VM not known yet", extra={"vmid": self._vmid, "error": str(error)})
            await self._tools.clock.sleep(LOOK_S)

    async def _work_once(self) -> None:
        batch = Batch(Backoff(0.1, 2.0, 3.0).delays())
        try:
            await self._run(batch)
            await self._clean_up(batch)
        except _GoneError as gone:
            self._resolve_gone(self._left(batch), str(gone))
        except DriverError as error:
            self._left(batch).give_up(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours; without this its callers would wait for ever
            _log.exception("config batch failed", extra={"region": self._tools.region, "vmid": self._vmid})
            self._left(batch).give_up(DriverError(f"config of {self._name}: {type(error).__name__}: {error}"))
        for member, why in batch.failed:
            member.fail(why)

    def _left(self, batch: Batch) -> Batch:
        """The batch with everybody in it whom its trouble concerns: those in the queue, if it had not begun."""
        if not batch.reading:
            batch.groups.append(self._take())
        return batch

    def _take(self) -> list[Member]:
        """Move from the queue what may be done together: not two opposite wishes for one volume."""
        taken: dict[str, Member] = {}
        left: list[Member] = []
        for member in self._queue:
            if member.abandoned:
                continue
            if taken.setdefault(member.wish.volid, member) is not member:
                left.append(member)
        self._queue = left
        return list(taken.values())

    async def _run(self, batch: Batch) -> None:
        await self._locate(batch)
        await self._tools.catch_up(batch.node)
        await self._changes.wait_for_running()
        await self._read(batch)
        batch.groups.append(self._take())
        gone = any(not member.wish.attach and member.wish.done(batch.config) for member in batch.groups[0])
        if gone and await self._changes.wait_for_others(batch.node):
            await self._read(batch)
        while batch.groups:
            group = self._settle(batch, batch.groups.pop(0))
            if group and (running := self._changes.running) is not None:
                batch.failed += [(member, self._changes.still_running(running)) for member in group]
                continue
            plan = make_plan(
                batch.config,
                [member.wish for member in group],
                banned=self._quarantine.keys(),
                discard=_undone(batch),
                plug_first=[member.wish for member in group if member.may_plug and batch.config.hotplugs_disks],
                vm=self._name,
            )
            batch.failed += [(member, plan.refused[member.wish]) for member in group if member.wish in plan.refused]
            group = [member for member in group if member.wish not in plan.refused]
            if not group:
                continue
            batch.groups.insert(0, group)
            if plan.empty:
                # True already, but asked for after this reading had begun: another one must say so.
                await self._read(batch)
            else:
                await self._attempt(batch, plan)

    async def _attempt(self, batch: Batch, plan: Plan) -> None:
        """Write the first group and judge what came of it; what has to be tried again stays first."""
        group = batch.groups[0]
        began_at, before, refusal = self._tools.clock.monotonic(), batch.config, None
        unfinished = self._let_unfinished_rest(plan, before)
        try:
            await self._changes.send(batch, group, plan)
        except _WHOLE as error:
            batch.give_up(error)
            return
        except _AGAIN as error:
            await self._begin_anew(batch, error)
            return
        except TaskTimeout:
            await self._read(batch)
            return
        except PveError as error:
            refusal = error
        await self._read(batch)
        rest = self._settle(batch, batch.groups.pop(0))
        if refusal is None:
            if not unfinished:
                self._judge_unplugs(batch, plan, before, began_at)
            again = [
                member for member in rest if self._was_plugged(plan, member) or self._has_moved(batch, plan, member)
            ]
            if again:
                batch.groups.insert(0, again)
        elif rest:
            self._judge_refusal(batch, plan, rest, refusal)

    def _was_plugged(self, plan: Plan, member: Member) -> bool:
        """Whether a waiting disk was to be plugged only to be taken away; that is tried once, whatever comes of it."""
        if member.wish.attach or not any(key in plan.changes for key in plan.keys[member.wish]):
            return False
        member.may_plug = False
        return True

    def _judge_refusal(self, batch: Batch, plan: Plan, rest: list[Member], refusal: PveError) -> None:
        """Give up who is to blame; if the server names nobody, try each half."""
        guilty = set(blamed(refusal, {member.wish: plan.keys[member.wish] for member in rest}))
        if not guilty:
            half = len(rest) // 2
            batch.groups[:0] = [rest[:half], rest[half:]]
            return
        again = []
        for member in rest:
            plugged = self._was_plugged(plan, member)
            if plugged or member.wish not in guilty or self._may_try_again(plan, member, refusal):
                again.append(member)
            else:
                batch.failed.append((member, only_about(refusal, plan.keys[member.wish])))
        if again:
            batch.groups.insert(0, again)

    def _may_try_again(self, plan: Plan, member: Member, refusal: PveError) -> bool:
        if not isinstance(refusal, HotplugFailed):
            return False
        keys = plan.keys[member.wish]
        unplugged = [key for key in keys if key in plan.deletes]
        for key in unplugged:
            self._quarantine.add(key)
        if unplugged:
            member.unplugs_failed += 1
            return member.unplugs_failed < _UNPLUG_TRIES
        if _SLOT_SPOILT.search(text_for(refusal, keys)):
            for key in keys:
                self._quarantine.add(key, until_restart=True)
            member.slots_spoilt += 1
            return member.slots_spoilt <= _OTHER_SLOTS
        return False

    def _let_unfinished_rest(self, plan: Plan, before: VmConfig) -> bool:
        """Slots whose removal waited already: whatever comes of the write, an earlier unplug did not get to its end."""
        unfinished = [key for key in plan.deletes if key in before.deletes] if before.hotplugs_disks else []
        for key in unfinished:
            self._quarantine.add(key)
        return bool(unfinished)

    def _judge_unplugs(self, batch: Batch, plan: Plan, before: VmConfig, began_at: float) -> None:
        """After a write that ended well: what its unplugs tell of the guest."""
        if not before.hotplugs_disks:
            return
        gone = plan.deletes and not batch.config.deletes.intersection(plan.deletes)
        # At once only what the guest had let go of before, or lost by an unplug that could not be written down.
        waited = self._tools.clock.monotonic() - began_at >= _UNPLUG_LEAST_S
        if gone and waited and before.scsi_controller == "virtio-scsi-single":
            self._quarantine.guest_answered(began_at)

    def _has_moved(self, batch: Batch, plan: Plan, member: Member) -> bool:
        """Whether a wish that is not true yet got nearer by a write that ended well; what stays waiting has failed."""
        found = traces(batch.config, member.wish.volid)
        stuck = set(plan.keys[member.wish]).intersection((*found.waiting, *found.leaving))
        member.rounds += 1
        if not stuck and member.rounds < _ATTEMPTS:
            return True
        error = why_waiting(batch.config, member.wish, self._name) or Unavailable(
            f"{member.wish.volid}: the change of {self._name} was stored, but still waits to be applied"
        )
        batch.failed.append((member, error))
        return False

    def _settle(self, batch: Batch, group: list[Member]) -> list[Member]:
        """Answer the members whose wish this reading shows to be true; the others."""
        rest = []
        for member in group:
            if objection := self._find_objection(batch, member.wish):
                batch.failed.append((member, objection))
            elif member.wish.done(batch.config) and (member.written or self._is_news(batch, member)):
                keys = traces(batch.config, member.wish.volid).live
                member.succeed(Seen(batch.node, batch.config, keys, member.written))
            else:
                rest.append(member)
        return rest

    def _is_news(self, batch: Batch, member: Member) -> bool:
        """Whether the reading tells the truth about a wish for which nothing was written."""
        return batch.reading > member.joined and (member.wish.attach or self._changes.running is None)

    def _find_objection(self, batch: Batch, wish: Wish) -> FailedPrecondition | None:
        """Why this reading of the VM must not get the volume: it is not the VM, or not the volume, that was meant."""
        if wish.hosts is not None and batch.node not in wish.hosts:
            hosts = ", ".join(sorted(wish.hosts))
            return FailedPrecondition(f"{self._name} is on {batch.node} now, the volume is on {hosts}")
        if not batch.config.may_be(wish.system_uuid):
            return FailedPrecondition(
                f"{self._name} is another machine than the one that is meant: its SMBIOS UUID is "
                f"{batch.config.smbios_uuid}, the node's system UUID {wish.system_uuid}"
            )
        return None

    async def _locate(self, batch: Batch, *, fresh: bool = False) -> None:
        match await self._tools.locator.find(self._vmid, fresh=fresh):
            case Present(ref):
                batch.node = ref.node
            case Absent(proof):
                raise _GoneError(proof)
            case Unknown(reason):
                raise Unavailable(f"{self._name} cannot be found: {reason}")

    async def _read(self, batch: Batch) -> None:
        for last in (False, False, True):
            self._readings += 1
            number = self._readings
            try:
                config = await self._tools.drives.read(batch.node, self._vmid)
            except VmNotHere:
                if last:
                    raise
                await self._locate(batch, fresh=True)
            else:
                batch.config, batch.reading = config, number
                self._changes.was_read()
                return

    async def _begin_anew(self, batch: Batch, error: PveError) -> None:
        """After a change, a move or a lost answer: read again and go on from there, a limited number of times."""
        batch.restarts += 1
        await self._tools.clock.sleep(next(batch.delays))
        if isinstance(error, VmNotHere):
            await self._locate(batch, fresh=True)
        await self._read(batch)
        if batch.restarts >= _ATTEMPTS:
            batch.groups = [rest for group in batch.groups if (rest := self._settle(batch, group))]
            batch.give_up(error)

    async def _clean_up(self, batch: Batch) -> None:
        """Take back what waits for wishes that failed: it would come true at the VM's next start, unasked."""
        discard = _undone(batch)
        while self._changes.running is None:
            plan = make_plan(batch.config, [], banned=(), discard=discard, vm=self._name)
            if plan.empty:
                return
            try:
                await self._changes.send(batch, [], plan)
                return
            except (*_AGAIN, TaskTimeout) as error:
                if batch.restarts >= _ATTEMPTS:
                    self._log_left(plan, error)
                    return
                await self._begin_anew(batch, error)
            except DriverError as error:
                self._log_left(plan, error)
                return

    def _log_left(self, plan: Plan, error: DriverError) -> None:
        _log.warning(
            "waiting config entries not reverted",
            extra={"region": self._tools.region, "vmid": self._vmid, "keys": plan.reverts, "error": str(error)},
        )

    def _resolve_gone(self, batch: Batch, proof: str) -> None:
        """No VM: everything is detached from it, and nothing can be attached."""
        nothing = VmConfig.parse([])
        self._changes.forget()
        for group in batch.groups:
            for member in group:
                if member.wish.attach:
                    batch.failed.append((member, NotFound(f"{self._name} does not exist ({proof})")))
                else:
                    member.succeed(Seen("", nothing, (), member.written))
        batch.groups.clear()


def _undone(batch: Batch) -> list[Wish]:
    """The failed wishes of which nothing can have come true.

    Where that is not known, what waits is left for the caller's next attempt or removal: a guest may have the disk.
    """
    return [member.wish for member, error in batch.failed if not isinstance(error, _MAYBE_PLUGGED)]
