"""Carries out one operation: which numbers mean what. Must not wait; everything it begins runs beside it."""

import random

from tests.kubesim import Cluster
from tests.kubesim import Rule as KubeRule
from tests.kubesim import cut_after as kube_cut_after
from tests.kubesim import cut_before as kube_cut_before
from tests.pvesim.access import AclKey
from tests.pvesim.state import Darkness
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_TOKEN, CSI_PRIVILEGES, CSI_TOKEN
from tests.sim.harness.admin import Admin
from tests.sim.harness.co import Orchestrator
from tests.sim.harness.faults import Fault, FaultKind
from tests.sim.harness.ledger import Claim, Ledger
from tests.sim.harness.ops import Op
from tests.sim.harness.programs import CloudManager, Controller
from tests.sim.harness.stage import GIB, HOSTS, MIB, STORAGES, VMIDS

_DARK: tuple[Darkness, ...] = ("cut", "cut", "no-pveproxy", "no-pvedaemon")
_CONFIG = r"^POST /nodes/[^/]+/qemu/\d+/config$"
_ANSWERS = (
    (595, "Connection refused"),
    (595, "No route to host"),
    (596, "Broken pipe"),
    (596, "Connection timed out"),
    (500, "got timeout"),
    (500, "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout"),
    (500, "cfs-lock 'storage-ceph' error: got lock request timeout"),
)
_TARGETS = (
    r"^(POST|PUT|DELETE) ",
    r"^(POST|PUT|DELETE) ",
    _CONFIG,
    r"^PUT .*/resize$",
    r"^DELETE .*/content/",
    r"^POST .*/content$",
    r"^GET .*/pending$",
    r"^GET .*/tasks/",
    r"^GET .*/content/",
    r"^GET /cluster/",
    r"^GET ",
    r" ",
)
_TASK_TEXTS = (
    "got timeout",
    "received interrupt",
    "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout",
)


class Acts:
    """One episode's."""

    def __init__(
        self,
        world: World,
        kube: Cluster,
        ledger: Ledger,
        controller: Controller,
        manager: CloudManager,
        orchestrator: Orchestrator,
        admin: Admin,
    ) -> None:
        self._world = world
        self._kube = kube
        self._ledger = ledger
        self._controller = controller
        self._manager = manager
        self._co = orchestrator
        self._admin = admin

    def perform(self, op: Op, now: float) -> None:
        getattr(self, "_" + op.kind.replace("-", "_"))(op, now)

    # Claims

    def _create(self, op: Op, now: float) -> None:
        if self._co.claim_in(op.slot) is not None:
            return
        draw = random.Random(op.x)  # noqa: S311
        kind = draw.choice(STORAGES)
        # Now and then the scheduler is not asked, and the driver chooses the host, out of a list or freely.
        lot, first = draw.random(), op.host
        zones = (HOSTS[first:] + HOSTS[:first])[: 1 if lot > 0.25 else 3 if lot > 0.1 else 0]
        size_bytes = draw.choice((GIB, 2 * GIB, 3 * GIB, GIB + 5 * MIB + 1, 700 * MIB))
        claim = Claim(
            slot=op.slot,
            name=f"pvc-{op.number:04d}-{op.slot}",
            storage=kind.name,
            shared=kind.shared,
            zones=zones,
            size_bytes=size_bytes,
            limit_bytes=0 if draw.random() < 0.8 else size_bytes + 64 * MIB,
            image_format=draw.choice(kind.formats),
            fs_type=draw.choice(("ext4", "xfs", "")),
            rights_missing=self._ledger.rights_missing,
            next_at=now,
        )
        self._co.create(claim)

    def _attach(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.attach(claim, self._vm_for(claim, op), bare_id=op.y < 0.1)

    def _vm_for(self, claim: Claim, op: Op) -> int:
        """The drawn VM; for a volume of one host one that runs there, as a scheduler would, with few exceptions."""
        vmid = VMIDS[op.vm]
        if claim.key[1] and op.x > 0.05:
            near = [vm.vmid for vm in self._world.vms.values() if vm.node == claim.key[1]]
            return near[op.vm % len(near)] if near else vmid
        return vmid

    def _detach(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.detach(claim)

    def _move(self, op: Op, now: float) -> None:
        """Detach, or attach what was detached: with a few of these a Pod moves."""
        if (claim := self._co.claim_in(op.slot)) is not None:
            if claim.attachments:
                self._co.detach(claim)
            else:
                self._co.attach(claim, self._vm_for(claim, op))

    def _grow(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.grow(claim, (1 + int(op.x * 512)) * MIB)

    def _delete(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.delete(claim)

    def _attach_rudely(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None and claim.attachments:
            self._co.attach(claim, self._vm_for(claim, op), rude=True)

    def _delete_rudely(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.delete_rudely(claim)

    def _repeat(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.repeat(claim)

    def _give_up(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None:
            self._co.give_up(claim)

    def _race(self, op: Op, now: float) -> None:
        """A disk comes and somebody else's too, in the same moment."""
        self._attach(op, now)
        claim = self._co.claim_in(op.slot)
        vmid = next(iter(claim.attachments), VMIDS[op.vm]) if claim is not None else VMIDS[op.vm]
        self._admin.add_disk(vmid, 0.12 * op.y)

    def _wait(self, op: Op, now: float) -> None:
        """Only time passes."""

    # Programs and networks

    def _kill_controller(self, op: Op, now: float) -> None:
        restart_s = 0.2 + 8 * op.y**3
        if op.x < 0.2:
            self._controller.kill(restart_s)
        else:
            self._controller.arm(1 + int(op.x * 12), "before" if op.y < 0.5 else "after", restart_s)

    def _kill_manager(self, op: Op, now: float) -> None:
        self._manager.arm(1 + int(op.x * 6), "before" if op.y < 0.5 else "after", 1 + 10 * op.y)

    def _fault(self, op: Op, now: float) -> None:
        draw = random.Random(op.x)  # noqa: S311
        pattern = draw.choice(_TARGETS)
        kinds: tuple[FaultKind, ...] = ("delay", "cut_before", "cut_after", "answer_before", "answer_after")
        if pattern.startswith(("^POST", "^PUT", "^DELETE")) or pattern == _TARGETS[0]:
            kinds = (*kinds, "task_before", "task_after")
        kind = draw.choice(kinds)
        status, text = draw.choice(_ANSWERS)
        if kind == "answer_after":
            # Only the proxy answers something else than what happened.
            status, text = 596, draw.choice(("Connection timed out", "Broken pipe"))
        if kind in ("task_before", "task_after"):
            text = draw.choice(_TASK_TEXTS)
        fault = Fault(kind, pattern, 1 + int(op.y * 6), status, text, seconds=25 * draw.random() ** 2)
        (self._manager if draw.random() < 0.1 else self._controller).faults.add(fault)
        self._ledger.trace.append(f"{'':12}fault: {fault}")

    def _kube_fault(self, op: Op, now: float) -> None:
        action = kube_cut_before() if op.x < 0.5 else kube_cut_after()
        self._kube.faults.add(KubeRule(action, verb="*" if op.x < 0.25 else "patch", nth=1 + int(op.y * 3)))

    def _kube_watches(self, op: Op, now: float) -> None:
        (self._kube.cut_watches, self._kube.end_watches, self._kube.expire)[int(op.x * 3)]()

    # Hosts and the cluster

    def _darken(self, op: Op, now: float) -> None:
        if any(node.dark for node in self._world.nodes):
            return  # one of three at most; more is a cluster without quorum
        name = HOSTS[op.host]
        self._world.broadcasts.darken(name, _DARK[int(op.x * len(_DARK))])
        self._ledger.dark_at[name] = float("inf")

    def _lighten(self, op: Op, now: float) -> None:
        for node in self._world.nodes:
            if node.dark:
                self._world.broadcasts.darken(node.name, "")
                self._ledger.dark_at[node.name] = now

    def _no_quorum(self, op: Op, now: float) -> None:
        self._world.quorate = False

    def _quorum(self, op: Op, now: float) -> None:
        self._world.quorate = True

    def _take_right(self, op: Op, now: float) -> None:
        self._world.access.custom_roles["CSI"].discard(CSI_PRIVILEGES[int(op.x * len(CSI_PRIVILEGES))])
        self._rights_changed(missing=True)

    def _hide_vm(self, op: Op, now: float) -> None:
        """The token loses one VM: lists are short, and nothing says so."""
        self._world.access.acl[AclKey(f"/vms/{VMIDS[op.vm]}", "token", CSI_TOKEN, "NoAccess")] = True
        if op.x < 0.5:
            self._world.access.acl[AclKey(f"/vms/{VMIDS[op.vm]}", "token", CCM_TOKEN, "NoAccess")] = True
        self._rights_changed(missing=True)

    def _give_rights(self, op: Op, now: float) -> None:
        self.restore_rights()

    def restore_rights(self) -> None:
        self._world.access.custom_roles["CSI"].update(CSI_PRIVILEGES)
        for key in [key for key in self._world.access.acl if key.role == "NoAccess"]:
            del self._world.access.acl[key]
        self._rights_changed(missing=False)

    def _rights_changed(self, *, missing: bool) -> None:
        self._ledger.rights_missing = missing
        for claim in self._ledger.claims:
            if claim.phase == "new":
                claim.rights_missing = claim.rights_missing or missing

    def _lock_storage(self, op: Op, now: float) -> None:
        self._world.storages.locked.add(STORAGES[int(op.x * len(STORAGES))].name)

    def _unlock_storage(self, op: Op, now: float) -> None:
        self._world.storages.locked.clear()

    # Other people

    def _stop(self, op: Op, now: float) -> None:
        self._admin.stop(VMIDS[op.vm])

    def _start(self, op: Op, now: float) -> None:
        for vm in self._stopped():
            self._admin.start(vm)

    def _stopped(self) -> list[int]:
        return [vm.vmid for vm in self._world.vms.values() if not vm.running]

    def _pause(self, op: Op, now: float) -> None:
        self._admin.pause(VMIDS[op.vm])

    def _resume(self, op: Op, now: float) -> None:
        for vm in [vm.vmid for vm in self._world.vms.values() if vm.paused]:
            self._admin.resume(vm)

    def _destroy(self, op: Op, now: float) -> None:
        self._admin.destroy(VMIDS[op.vm])

    def _recreate(self, op: Op, now: float) -> None:
        for vmid in VMIDS:
            if vmid not in self._world.vms:
                self._admin.create(vmid)

    def _migrate(self, op: Op, now: float) -> None:
        self._admin.migrate(VMIDS[op.vm], HOSTS[op.host])

    def _fail_over(self, op: Op, now: float) -> None:
        dark = next((node.name for node in self._world.nodes if node.dark == "cut"), None)
        target = HOSTS[op.host]
        if dark is not None and target != dark:
            for vm in [vm.vmid for vm in self._world.vms.values() if vm.node == dark]:
                self._admin.fail_over(vm, target)

    def _add_disk(self, op: Op, now: float) -> None:
        self._admin.add_disk(VMIDS[op.vm], 0.0)

    def _remove_disk(self, op: Op, now: float) -> None:
        self._admin.remove_disk(VMIDS[op.vm])

    def _attach_by_hand(self, op: Op, now: float) -> None:
        if (claim := self._co.claim_in(op.slot)) is not None and claim.wanted and claim.phase == "bound":
            self._admin.attach_by_hand(self._vm_for(claim, op), claim)

    def _detach_by_hand(self, op: Op, now: float) -> None:
        self._admin.detach_by_hand(VMIDS[op.vm])

    def _snapshot(self, op: Op, now: float) -> None:
        self._admin.snapshot(VMIDS[op.vm])

    def _delete_snapshot(self, op: Op, now: float) -> None:
        for vm in [vm.vmid for vm in self._world.vms.values() if vm.snapshots]:
            self._admin.delete_snapshot(vm)

    def _roll_back(self, op: Op, now: float) -> None:
        self._admin.roll_back(VMIDS[op.vm])

    def _backup(self, op: Op, now: float) -> None:
        self._admin.lock(VMIDS[op.vm], 60 * op.x)

    def _hold_config(self, op: Op, now: float) -> None:
        self._admin.hold_config(VMIDS[op.vm], 20 * op.x)

    def _describe(self, op: Op, now: float) -> None:
        self._admin.describe(VMIDS[op.vm])

    def _hotplug_off(self, op: Op, now: float) -> None:
        self._admin.hotplug(VMIDS[op.vm], "network,usb" if op.x < 0.5 else "0")

    def _hotplug_on(self, op: Op, now: float) -> None:
        for vm in [vm.vmid for vm in self._world.vms.values() if "hotplug" in vm.conf]:
            self._admin.hotplug(vm, "network,disk,usb")

    def _tidy(self, op: Op, now: float) -> None:
        self._admin.tidy_beside()
