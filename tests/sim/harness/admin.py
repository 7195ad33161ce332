"""Everybody else on the cluster: admins with root's token, guests, the cluster's own machinery, the cloud's kubelets.

Each act runs beside the programs and may fail, which is its own business. What it does to volumes or disks is entered
in the ledger, so that nobody blames the driver for it.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.kubesim import Cluster
from tests.kubesim.problems import Refusal
from tests.pvesim.direct import Direct, Reply
from tests.pvesim.hotplug import unplug_all
from tests.pvesim.state import Vm
from tests.pvesim.world import World
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN
from tests.sim.harness.ledger import Claim, Ledger, at
from tests.sim.harness.stage import boot_storage, home_of, kube_node, node_name, vm_config
from tests.sim.harness.truth import drive_keys, file_of, key_on, ours_in
from tests.sim.harness.virtual import VirtualLoop

_SNAPSHOT = "before"


class Admin:
    """One episode's. Every public method begins an act and returns at once."""

    def __init__(self, loop: VirtualLoop, world: World, kube: Cluster, ledger: Ledger) -> None:
        self._loop = loop
        self._world = world
        self._kube = kube
        self._ledger = ledger
        self._root = Direct(world, ROOT_TOKEN, ROOT_SECRET)
        self._busy: set[asyncio.Task[None]] = set()
        # VMs that are destroyed or rolled back just now, with whatever disks they have or get.
        self._sweeping: set[int] = set()

    # Power

    def stop(self, vmid: int) -> None:
        self._begin(vmid, "stop", self._power(vmid, "stop"), disturbs=True)

    def start(self, vmid: int) -> None:
        self._begin(vmid, "start", self._power(vmid, "start"), disturbs=True)

    def pause(self, vmid: int) -> None:
        self._begin(vmid, "pause", self._power(vmid, "suspend"))

    def resume(self, vmid: int) -> None:
        """What the guest was asked to let go of, it lets go of now."""
        self._begin(vmid, "resume", self._power(vmid, "resume"), disturbs=True)

    async def _power(self, vmid: int, verb: str) -> None:
        if (vm := self._world.vms.get(vmid)) is not None:
            await self._done(await self._root.post(f"/nodes/{vm.node}/qemu/{vmid}/status/{verb}"))

    # Life

    def destroy(self, vmid: int) -> None:
        """The VM and its Node."""
        self._begin(vmid, "destroy", self._destroy(vmid), disturbs=True)

    async def _destroy(self, vmid: int) -> None:
        await self._power(vmid, "stop")
        vm = self._world.vms.get(vmid)
        if vm is None or vm.running:
            return
        with self._swept(vmid):
            await self._done(await self._root.delete(f"/nodes/{vm.node}/qemu/{vmid}"))
        if vmid not in self._world.vms:
            self._delete_node(vmid)

    def create(self, vmid: int) -> None:
        """The same id and name again, another machine."""
        self._begin(vmid, "create", self._create(vmid), disturbs=True)

    async def _create(self, vmid: int) -> None:
        if vmid in self._world.vms:
            return
        self._delete_node(vmid)
        life = self._ledger.lives[vmid] = self._ledger.lives.get(vmid, 0) + 1
        config = vm_config(vmid, life, f"{boot_storage(vmid)}:4")
        host = home_of(vmid)
        await self._done(await self._root.post(f"/nodes/{host}/qemu", vmid=vmid, **config))
        await self._power(vmid, "start")
        if vmid in self._world.vms:
            self._kube.apply(kube_node(vmid, life))
            self._ledger.nodeless.discard(vmid)

    def _delete_node(self, vmid: int) -> None:
        self._ledger.nodeless.add(vmid)
        with suppress(Refusal):
            self._kube.delete("nodes", node_name(vmid))

    def migrate(self, vmid: int, target: str) -> None:
        self._begin(vmid, f"migrate to {target}", self._migrate(vmid, target))

    async def _migrate(self, vmid: int, target: str) -> None:
        if (vm := self._world.vms.get(vmid)) is not None:
            online = {"online": 1} if vm.running else {}
            await self._done(await self._root.post(f"/nodes/{vm.node}/qemu/{vmid}/migrate", target=target, **online))

    def fail_over(self, vmid: int, target: str) -> None:
        """HA: the VM of a host that was cut off is fenced, and started elsewhere."""
        self._begin(vmid, f"fail over to {target}", self._fail_over(vmid, target), disturbs=True)

    async def _fail_over(self, vmid: int, target: str) -> None:
        vm = self._world.vms.get(vmid)
        host = self._world.nodes.find(vm.node) if vm is not None else None
        if vm is None or host is None or host.dark != "cut" or self._has_local_disk(vm):
            return
        await asyncio.sleep(139.0)
        if host.dark != "cut" or self._world.vms.get(vmid) is not vm or self._has_local_disk(vm):
            return
        await unplug_all(self._world, vm)
        vm.power, vm.paused, vm.node = "stopped", False, target
        await self._power(vmid, "start")

    def _has_local_disk(self, vm: Vm) -> bool:
        volids = [file_of(value) for key, value in (*vm.conf.items(), *vm.pending.items()) if key in drive_keys(vm)]
        return any(key_on(self._world, volid, vm.node)[1] for volid in volids)

    # Disks

    def add_disk(self, vmid: int, after_s: float) -> None:
        """A disk of the VM's own, in the lowest free slot: where the driver would put its next one."""
        self._begin(vmid, "add a disk", self._add_disk(vmid, after_s))

    async def _add_disk(self, vmid: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        vm = self._world.vms.get(vmid)
        if vm is None:
            return
        taken = drive_keys(vm) | vm.stuck_controllers
        key = next((f"scsi{n}" for n in range(1, 31) if f"scsi{n}" not in taken), None)
        if key is None:
            return
        answer = await self._root.put(
            f"/nodes/{vm.node}/qemu/{vmid}/config", digest=vm.digest, **{key: f"{boot_storage(vmid)}:1"}
        )
        if vmid in self._sweeping:
            return
        if answer.status == 200 and key not in vm.pending and key in vm.conf and self._world.vms.get(vmid) is vm:
            self._ledger.foreign[vmid, key] = file_of(vm.conf[key])

    def remove_disk(self, vmid: int) -> None:
        self._begin(vmid, "remove its disk", self._remove_disk(vmid))

    async def _remove_disk(self, vmid: int) -> None:
        key = next((key for owner, key in sorted(self._ledger.foreign) if owner == vmid), None)
        vm = self._world.vms.get(vmid)
        if key is not None and vm is not None:
            del self._ledger.foreign[vmid, key]
            await self._take_away(vm, key)

    @contextmanager
    def _swept(self, vmid: int) -> Iterator[None]:
        """Whatever disks the VM has before or gets meanwhile: nobody promises them any more."""
        self._sweeping.add(vmid)
        for owner, key in list(self._ledger.foreign):
            if owner == vmid:
                del self._ledger.foreign[owner, key]
        try:
            yield
        finally:
            self._sweeping.discard(vmid)

    def attach_by_hand(self, vmid: int, claim: Claim) -> None:
        """A volume of ours, in a VM of the admin's choice."""
        self._begin(vmid, f"attach {claim.name} by hand", self._attach_by_hand(vmid, claim))

    async def _attach_by_hand(self, vmid: int, claim: Claim) -> None:
        vm = self._world.vms.get(vmid)
        if vm is None or claim.volume is None or claim.key[1] not in ("", vm.node) or vmid in claim.attachments:
            return
        taken = drive_keys(vm)
        key = next(f"scsi{n}" for n in range(30, 0, -1) if f"scsi{n}" not in taken)
        self._ledger.by_hand[vmid, claim.key] = math.inf
        await self._root.put(f"/nodes/{vm.node}/qemu/{vmid}/config", digest=vm.digest, **{key: claim.volid})
        self._ledger.by_hand[vmid, claim.key] = self._loop.time()

    def detach_by_hand(self, vmid: int) -> None:
        """The first volume of ours that the VM has."""
        self._begin(vmid, "detach by hand", self._detach_by_hand(vmid), disturbs=True)

    async def _detach_by_hand(self, vmid: int) -> None:
        vm = self._world.vms.get(vmid)
        if vm is not None and (key := next((key for where, key, _ in ours_in(vm) if where == "config"), None)):
            await self._take_away(vm, key)

    async def _take_away(self, vm: Vm, key: str) -> Reply:
        """Remove a drive. Who finishes what another began hides from that one what the guest still owes."""
        reply = await self._root.put(f"/nodes/{vm.node}/qemu/{vm.vmid}/config", delete=key, digest=vm.digest)
        if key in vm.stuck_controllers:
            self._ledger.finished_by_hand.add((vm.vmid, key))
        return reply

    # Snapshots

    def snapshot(self, vmid: int) -> None:
        self._begin(vmid, "snapshot", self._snapshot(vmid))

    async def _snapshot(self, vmid: int) -> None:
        vm = self._world.vms.get(vmid)
        if vm is not None and _SNAPSHOT not in vm.snapshots:
            self._ledger.snapshot_at[vmid, _SNAPSHOT] = math.inf
            await self._done(await self._root.post(f"/nodes/{vm.node}/qemu/{vmid}/snapshot", snapname=_SNAPSHOT))
            self._ledger.snapshot_at[vmid, _SNAPSHOT] = self._loop.time()

    def delete_snapshot(self, vmid: int) -> None:
        self._begin(vmid, "delete snapshot", self._delete_snapshot(vmid))

    async def _delete_snapshot(self, vmid: int) -> None:
        vm = self._world.vms.get(vmid)
        if vm is not None and _SNAPSHOT in vm.snapshots:
            path = f"/nodes/{vm.node}/qemu/{vmid}/snapshot/{_SNAPSHOT}"
            await self._done(await self._root.delete(path, force=1))

    def roll_back(self, vmid: int) -> None:
        self._begin(vmid, "roll back", self._roll_back(vmid), disturbs=True)

    async def _roll_back(self, vmid: int) -> None:
        vm = self._world.vms.get(vmid)
        snapshot = vm.snapshots.get(_SNAPSHOT) if vm is not None else None
        if vm is None or snapshot is None:
            return
        for value in snapshot.conf.values():
            # What the snapshot had comes back, wherever it is by now, and as small as it was.
            if "vm-9999-" in value:
                key = key_on(self._world, file_of(value), vm.node)
                self._ledger.by_hand[vmid, key] = math.inf
                for claim in self._ledger.claims:
                    if claim.key == key and claim.volume is not None:
                        then_bytes = claim.volume.snapshots.get(_SNAPSHOT, claim.held_bytes)
                        claim.held_bytes = min(claim.held_bytes, then_bytes)
        with self._swept(vmid):
            await self._done(await self._root.post(f"/nodes/{vm.node}/qemu/{vmid}/snapshot/{_SNAPSHOT}/rollback"))
        for owner, key in list(self._ledger.by_hand):
            if owner == vmid:
                self._ledger.by_hand[owner, key] = self._loop.time()
        for claim in self._ledger.claims:
            if claim.volume is not None:
                claim.held_bytes = min(claim.held_bytes, claim.volume.size_bytes)
        await self._power(vmid, "start")

    # Locks and settings

    def lock(self, vmid: int, seconds: float) -> None:
        """A backup runs."""
        self._begin(vmid, f"backup for {seconds:.0f} s", self._lock(vmid, seconds))

    async def _lock(self, vmid: int, seconds: float) -> None:
        vm = self._world.vms.get(vmid)
        if vm is not None and "lock" not in vm.conf:
            vm.conf["lock"] = "backup"
            try:
                await asyncio.sleep(seconds)
            finally:
                if vm.conf.get("lock") == "backup":
                    del vm.conf["lock"]

    def hold_config(self, vmid: int, seconds: float) -> None:
        """Something slow holds the flock on the configuration."""
        self._begin(vmid, f"flock for {seconds:.0f} s", self._hold_config(vmid, seconds))

    async def _hold_config(self, vmid: int, seconds: float) -> None:
        if (vm := self._world.vms.get(vmid)) is not None:
            async with vm.config_lock:
                await asyncio.sleep(seconds)

    def describe(self, vmid: int) -> None:
        """A change that has nothing to do with disks, but changes the digest."""
        self._begin(vmid, "describe", self._describe(vmid))

    async def _describe(self, vmid: int) -> None:
        if (vm := self._world.vms.get(vmid)) is not None:
            text = f"at {self._loop.time():.3f}"
            await self._root.put(f"/nodes/{vm.node}/qemu/{vmid}/config", description=text)

    def hotplug(self, vmid: int, features: str) -> None:
        self._begin(vmid, f"hotplug {features}", self._hotplug(vmid, features))

    async def _hotplug(self, vmid: int, features: str) -> None:
        if (vm := self._world.vms.get(vmid)) is not None:
            await self._root.put(f"/nodes/{vm.node}/qemu/{vmid}/config", hotplug=features)

    # In the end

    def tidy_beside(self) -> None:
        """`tidy`, as an act."""
        self._begin(0, "tidy", self.tidy())

    async def put_right(self) -> None:
        """Undo whatever keeps things from coming to their end."""
        while self._busy:
            await asyncio.wait(set(self._busy))
        for vmid in sorted(self._world.vms):
            vm = self._world.vms[vmid]
            vm.conf.pop("lock", None)
            await self._hotplug(vmid, "disk,network,usb")
            if vm.paused:
                self._ledger.disturb(vmid, math.inf)
                await self._power(vmid, "resume")
            await self._delete_snapshot(vmid)
            if not vm.running:
                self._ledger.disturb(vmid, math.inf)
                await self._power(vmid, "start")
            self._ledger.disturb(vmid, self._loop.time())

    async def tidy(self) -> None:
        """Take away what others attached or kept of our volumes."""
        for vmid in sorted(self._world.vms):
            for _ in range(40):
                vm = self._world.vms.get(vmid)
                key = self._find_litter(vm) if vm is not None else None
                if vm is None or key is None:
                    break
                if (await self._take_away(vm, key)).status != 200:
                    break

    def _find_litter(self, vm: Vm) -> str | None:
        """A key with a volume of ours that nobody wants there, or that somebody attached by hand."""
        wanted = {claim.volid for claim in self._ledger.claims if vm.vmid in claim.attachments}
        for where, key, volid in ours_in(vm):
            by_hand = where == "config" and "wwn=" not in vm.conf[key]
            if where == "unused" or (where in ("config", "pending") and (volid not in wanted or by_hand)):
                return key
        return None

    async def aclose(self) -> None:
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    def _begin(self, vmid: int, what: str, body: Coroutine[Any, Any, None], *, disturbs: bool = False) -> None:
        task = self._loop.spawn(None, self._act(vmid, what, body, disturbs=disturbs))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _act(self, vmid: int, what: str, body: Coroutine[Any, Any, None], *, disturbs: bool) -> None:
        if disturbs:
            self._ledger.disturb(vmid, math.inf)
        try:
            await body
        finally:
            if disturbs:
                self._ledger.disturb(vmid, self._loop.time())
            self._ledger.trace.append(at(self._loop.time(), " ", "admin: VM", vmid, what, "ended"))

    async def _done(self, reply: Reply) -> None:
        if isinstance(reply.data, str) and reply.data.startswith("UPID:"):
            await self._root.finish(reply)
