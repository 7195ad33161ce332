"""What the HA manager does about its resources: start, stop, move, fence a host that is gone and recover elsewhere.

Delays as recorded from 9.2: a wish is taken up after some ten seconds (profile), a host that is cut off is fenced after
a minute, what ran there comes to life elsewhere two minutes and some seconds after. Which host is chosen follows the
sources: rules or groups first, then the fewest services, then the name. Must not answer requests; `haapi.py` does.
"""

from typing import TYPE_CHECKING, Any

from tests.pvesim.call import Call, as_root
from tests.pvesim.errors import ApiError, die
from tests.pvesim.ha import Service
from tests.pvesim.migration import migrate_vm
from tests.pvesim.power import power_off, start_vm
from tests.pvesim.state import Vm
from tests.pvesim.tasks import Task
from tests.pvesim.vmconfig import config_lock

if TYPE_CHECKING:
    from tests.pvesim.world import World

# After this the master gives a silent host up, and the host's own watchdog has reset it.
FENCE_AFTER_S = 60.0
# The silent host's lock runs out; only then may its guests' configurations be moved.
RECOVER_AFTER_S = 130.0
# Without quorum nothing is decided; the manager looks again.
RETRY_S = 10.0
_WANTS_RUNNING = ("started", "enabled")
_WANTS_STOPPED = ("stopped", "disabled")


class HaManager:
    """The manager of one cluster. Acts in tasks of its own, only when something changed."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def take_up(self, sid: str) -> None:
        """A wish was noted: look at the resource with the next round."""
        self._world.ha.ever_active = True
        self._world.spawn(self._later(sid))

    def move(self, sid: str, target: str) -> None:
        """A wish to move was noted: live if it runs, else by its configuration."""
        self._world.spawn(self._move_later(sid, target))

    def host_changed(self, name: str) -> None:
        """A host went dark, or came back: what it runs is fenced, or returned to it."""
        node = self._world.nodes.find(name)
        if node is None or not self._world.ha.resources:
            return
        if node.dark == "cut":
            self._world.spawn(self._fence(name, node.dark_since))
        elif not node.dark:
            for sid in self._world.ha.resources:
                self.take_up(sid)

    async def _later(self, sid: str) -> None:
        await self._world.clock.sleep(self._world.profile.ha_request_s)
        await self._settle(sid)

    async def _settle(self, sid: str) -> None:
        """Bring a resource into the state that is wished for, as far as its host answers."""
        world = self._world
        spec, vm = world.ha.resources.get(sid), self._vm(sid)
        if spec is None or vm is None:
            world.ha.services.pop(sid, None)
            return
        while not world.quorate:
            await world.clock.sleep(RETRY_S)
        service = world.ha.services.setdefault(sid, Service("queued"))
        wanted = str(spec.get("state", "started"))
        if self._is_gone(vm.node) or service.crm_state in ("fence", "recovery", "migrate", "relocate"):
            return
        if wanted in _WANTS_STOPPED:
            if vm.running:
                await self._stop(vm)
            service.crm_state, service.state, service.failed_starts = wanted, "", 0
        elif wanted in _WANTS_RUNNING and service.crm_state != "error":
            service.crm_state = "started"
            if not vm.running:
                await self._start(sid, vm, service)
            await self._fail_back(sid, vm)

    async def _start(self, sid: str, vm: Vm, service: Service) -> None:
        """Start; after `max_restart` failures elsewhere, after `max_relocate` moves it is an error."""
        world = self._world
        spec = world.ha.resources[sid]
        while True:
            service.state = "starting"
            call = as_root(world, vm.node, vmid=str(vm.vmid))

            async def body(task: Task, call: Call = call) -> None:
                async with config_lock(world, vm):
                    if not vm.running:
                        await start_vm(call, vm)

            task = call.start_task("qmstart", str(vm.vmid), body)
            await task.done.wait()
            if not task.failed:
                service.state, service.failed_starts, service.relocations = "", 0, 0
                return
            service.failed_starts += 1
            if service.failed_starts <= int(spec.get("max_restart", 1)):
                await world.clock.sleep(world.profile.ha_request_s)
                continue
            target = self.choose_host(sid, without=frozenset([vm.node]))
            if service.relocations >= int(spec.get("max_relocate", 1)) or target is None:
                service.crm_state, service.state = "error", ""
                return
            service.relocations, service.failed_starts = service.relocations + 1, 0
            vm.node = target

    async def _stop(self, vm: Vm) -> None:
        call = as_root(self._world, vm.node, vmid=str(vm.vmid))

        async def body(task: Task) -> None:
            async with config_lock(self._world, vm):
                if vm.running:
                    await power_off(call, vm)

        await call.start_task("qmshutdown", str(vm.vmid), body).done.wait()

    async def _fail_back(self, sid: str, vm: Vm) -> None:
        """Return to a host that is preferred to this one."""
        priorities, _ = self._world.ha.priorities(sid)
        if not priorities or not self._world.ha.fails_back(sid):
            return
        best = self.choose_host(sid, here=vm.node)
        if best is not None and best != vm.node:
            await self._move(sid, best)

    async def _move_later(self, sid: str, target: str) -> None:
        await self._world.clock.sleep(self._world.profile.ha_request_s)
        if self._world.quorate:
            await self._move(sid, target)

    async def _move(self, sid: str, target: str) -> None:
        world, vm = self._world, self._vm(sid)
        service = world.ha.services.get(sid)
        node = world.nodes.find(target)
        if vm is None or service is None or node is None or vm.node == target or self._is_gone(target):
            return
        before, service.crm_state = service.crm_state, "migrate"
        call = as_root(world, vm.node, vmid=str(vm.vmid), target=target, online="1")

        async def body(task: Task) -> None:
            async with config_lock(world, vm):
                await migrate_vm(call, vm, target, node.ip, task)

        task = call.start_task("qmigrate", str(vm.vmid), body)
        await task.done.wait()
        service.crm_state = before

    async def _fence(self, name: str, dark_since: float) -> None:
        """The whole way from a silent host to guests that run elsewhere; ends where the host is heard again in time."""
        world = self._world
        await world.clock.sleep(FENCE_AFTER_S)
        sids = [sid for sid in world.ha.resources if (vm := self._vm(sid)) is not None and vm.node == name]
        if not sids or not self._still_dark(name, dark_since):
            return
        while not world.quorate:
            await world.clock.sleep(RETRY_S)
        # The watchdog resets the whole host, guests that nobody manages included.
        for vm in [vm for vm in world.vms.values() if vm.node == name and vm.running]:
            await power_off(as_root(world, name), vm, applies=False)
        for sid in sids:
            world.ha.services.setdefault(sid, Service("started")).crm_state = "fence"
        await world.clock.sleep(RECOVER_AFTER_S - FENCE_AFTER_S)
        for sid in sids:
            await self._recover(sid, name)

    async def _recover(self, sid: str, lost: str) -> None:
        """Move the configuration to another host, whatever its disks are, and start it there if it is to run."""
        world, vm = self._world, self._vm(sid)
        service = world.ha.services.get(sid)
        if vm is None or service is None or sid not in world.ha.resources:
            return
        service.crm_state = "recovery"
        while (target := self.choose_host(sid, without=frozenset([lost]))) is None:
            await world.clock.sleep(RETRY_S)
            if not self._is_gone(lost):
                target = lost
                break
        vm.node = target
        vm.conf.pop("lock", None)
        service.crm_state = "started"
        await self._settle(sid)

    def choose_host(self, sid: str, *, without: frozenset[str] = frozenset(), here: str = "") -> str | None:
        """The host that the manager would choose; None when rules or lack of hosts leave none. `here` wins a tie."""
        world = self._world
        priorities, only_these = world.ha.priorities(sid)
        open_hosts = [n.name for n in world.nodes if n.name not in without and not self._is_gone(n.name)]
        preferred = [name for name in open_hosts if name in priorities]
        if preferred:
            top = max(priorities[name] for name in preferred)
            open_hosts = [name for name in preferred if priorities[name] == top]
        elif only_these:
            return None
        apart = {vm.node for mate in world.ha.mates(sid, "negative") if (vm := self._vm(mate)) is not None}
        together = {vm.node for mate in world.ha.mates(sid, "positive") if (vm := self._vm(mate)) is not None}
        open_hosts = [name for name in open_hosts if name not in apart]
        open_hosts = [name for name in open_hosts if name in together] or open_hosts
        if here in open_hosts:
            return here
        load = dict.fromkeys(open_hosts, 0)
        for other in world.ha.resources:
            vm = self._vm(other)
            if vm is not None and vm.node in load and other != sid:
                load[vm.node] += 1
        return min(open_hosts, key=lambda name: (load[name], name), default=None)

    def _vm(self, sid: str) -> Vm | None:
        return self._world.vms.get(int(sid.partition(":")[2]))

    def _is_gone(self, name: str) -> bool:
        node = self._world.nodes.find(name)
        return node is None or node.dark == "cut"

    def _still_dark(self, name: str, since: float) -> bool:
        node = self._world.nodes.find(name)
        return node is None or (node.dark == "cut" and node.dark_since == since)


def check_moveable(call: Call, sid: str, target: str) -> dict[str, Any]:
    """What a request to move answers; 500 when the host is none of the cluster, or a rule forbids it."""
    world = call.world
    if sid not in world.ha.resources:
        raise die(f"no such resource '{sid}'")
    if world.nodes.find(target) is None:
        raise ApiError(500, f"no such cluster node '{target}'")
    priorities, only_these = world.ha.priorities(sid)
    if only_these and target not in priorities:
        raise die(f"requested node '{target}' is not allowed for '{sid}' by its rules")
    return {"sid": sid, "requested-node": target}
