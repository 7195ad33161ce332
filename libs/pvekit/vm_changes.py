"""The changes that were sent to one VM, until each is known to have ended and the VM was read after it.

A sent change cannot be called back, and what it attaches belongs to this VM from then on, whatever its callers were
told. Must not decide what is written nor whether it is repeated.
"""

from appkit.errors import DriverError
from appkit.logs import get_logger
from pvekit.api_path import api_path
from pvekit.errors import Call, TaskTimeout
from pvekit.purpose import purpose
from pvekit.upid import Upid
from pvekit.vm_batch import Batch, Member, Tools
from pvekit.vm_config_plan import Plan

_log = get_logger(__name__)

_FOLLOW_S = 30.0
_FOLLOW_S_PER_UNPLUG = 4.0
LOOK_S = 5.0
"""A task may look like running long after it ended (recorded, 9.2): now and then the config itself is asked."""


class VmChanges:
    """`running`: a change whose callers were told that it still runs, or another process's. `unread`: whether a change
    was sent and the VM not read after its end.
    """

    def __init__(self, vmid: int, name: str, tools: Tools) -> None:
        self._vmid = vmid
        self._name = name
        self._tools = tools
        self.running: Upid | None = None
        self.unread = False

    def was_read(self) -> None:
        """The VM's config was just read: unless a change still runs, it tells all."""
        if self.running is None:
            self.forget()

    def forget(self) -> None:
        """Nothing that was sent can come true any more, or all of it was seen."""
        self.unread = False
        self._tools.drives.release(self._vmid)

    async def send(self, batch: Batch, group: list[Member], plan: Plan) -> None:
        """Write and follow the task; raises TaskTimeout while it still runs, and what the write and the task raise."""
        for member in group:
            member.written = member.written or bool(plan.keys[member.wish])
        self.unread = True
        self._tools.drives.claim(self._vmid, [member.wish.volid for member in group if member.wish.attach])
        upid = await self._tools.vms.submit(
            batch.node,
            self._vmid,
            plan.changes,
            delete=plan.deletes,
            revert=plan.reverts,
            digest=batch.config.digest,
        )
        if upid is None:
            return
        self.running = upid
        try:
            await self._follow(batch, group, plan, upid)
        except TaskTimeout:
            raise
        except BaseException:
            self.running = None
            raise
        self.running = None

    async def _follow(self, batch: Batch, group: list[Member], plan: Plan, upid: Upid) -> None:
        clock = self._tools.clock
        deadline = clock.monotonic() + _FOLLOW_S + _FOLLOW_S_PER_UNPLUG * len(plan.deletes)
        while True:
            left_s = deadline - clock.monotonic()
            try:
                await self._tools.tasks.wait(upid, timeout_s=min(LOOK_S, left_s))
                return
            except TaskTimeout:
                if left_s <= LOOK_S:
                    raise
            if group and await self._looks_done(batch, group):
                return

    async def _looks_done(self, batch: Batch, group: list[Member]) -> bool:
        try:
            with purpose("poll"):
                config = await self._tools.drives.read(batch.node, self._vmid)
        except DriverError:
            return False
        return all(member.wish.done(config) for member in group)

    async def wait_for_running(self) -> None:
        """A change that was still running when its callers were told so: nothing new before its end is known."""
        if self.running is None:
            return
        try:
            await self._tools.tasks.wait(self.running, timeout_s=LOOK_S)
        except TaskTimeout:
            return
        except DriverError as error:
            _log.info("earlier config change ended", extra={"vmid": self._vmid, "error": str(error)})
        self.running = None

    async def wait_for_others(self, node: str) -> bool:
        """Wait for changes that other processes of this service have begun; whether there were any.

        Until they have ended nobody may say that a volume is nowhere.

        A request still on its way is not seen; a new leader waits longer for its Lease than any is.
        Two processes are normal: each of Kubernetes' sidecars elects its own leader, and a dead one leaves its tasks.
        """
        with purpose("poll"):
            running = await self._tools.tasks.running(node)
        others = [upid for upid in running if upid.type == "qmconfig" and upid.id == str(self._vmid)]
        for upid in others:
            _log.info("waiting for a change by another process", extra={"upid": str(upid)})
            try:
                await self._tools.tasks.wait(upid, timeout_s=LOOK_S)
            except TaskTimeout:
                self.running = upid
            except DriverError as error:
                _log.info("it ended", extra={"upid": str(upid), "how": str(error)})
        return bool(others)

    def still_running(self, upid: Upid) -> TaskTimeout:
        """What callers are told who came while that change runs."""
        return TaskTimeout(
            f"an earlier change of {self._name} still runs",
            call=Call(self._tools.region, "POST", api_path("nodes", upid.node, "qemu", self._vmid, "config")),
            upid=str(upid),
        )
