"""Tools for what happened to the recorded installations outside the recorded requests; `script.py` says what and when.

An edit changes a world between two recorded requests: a disk prepared by hand, a host cut off, a lock held, a token
given other rights, a request that was sent but not recorded. Must not know a recording, and must not hold an answer.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.contract.credentials import TOKENS, Credentials, ensure_token
from tests.contract.naming import Naming
from tests.pvesim.access import AclKey
from tests.pvesim.faults import Rule, answer, task_fails
from tests.pvesim.requests import SimRequest
from tests.pvesim.state import Damage, Darkness, GuestAgent, Snapshot, Storage, Vm
from tests.pvesim.world import World

MIB = 1 << 20
GIB = 1 << 30


@dataclass
class Scene:
    """Where an edit acts: the world, how things are called in it, and who may ask.

    `sent_upid` is the task that the last unrecorded request started; `entry` the host the recorder talks to.
    """

    world: World
    naming: Naming
    credentials: Credentials
    entry: str = ""
    sent_upid: str = field(default="", init=False)

    def vm(self, vmid: int) -> Vm:
        """By recorded id; KeyError if the world lacks it."""
        return self.world.vms[self.naming.vmid(vmid)]

    def storage(self, name: str) -> Storage:
        """By recorded name."""
        return self.world.storages.get(self.naming.storage(name))

    async def send(self, auth: str | None, method: str, path: str, **params: Any) -> None:
        """One request that the recorder sent without recording it, and its task to the end."""
        named = {key.replace("_", "-"): self.naming.value(value, key) for key, value in params.items()}
        headers = self.credentials.token(auth) if auth else self.credentials.ticket()
        target, body = f"/api2/json{self.naming.text(path)}", b""
        if method in ("GET", "DELETE"):
            target += f"?{urlencode(named)}" if named else ""
        else:
            body = urlencode(named).encode()
            headers["content-type"] = "application/x-www-form-urlencoded"
        known = set(self.world.tasks.by_upid)
        await self.world.handle(SimRequest(method, target, headers, body, self.entry))
        self.sent_upid = next((upid for upid in self.world.tasks.by_upid if upid not in known), "")
        await self.world.tasks.settle()


Edit = Callable[[Scene], Awaitable[None]]


def sent(auth: str | None, method: str, path: str, **params: Any) -> Edit:
    """A request that was sent and not recorded; `auth` None is root's ticket."""

    async def edit(scene: Scene) -> None:
        await scene.send(auth, method, path, **params)

    return edit


def volumes(storage: str, names: Iterable[str], size_bytes: int = GIB, *, node: str = "pve1") -> Edit:
    """Disks made by hand: names as in a volid after the colon."""

    async def edit(scene: Scene) -> None:
        where = scene.storage(storage)
        for name in names:
            fmt = name.rpartition(".")[2] if name.endswith((".raw", ".qcow2")) else "raw"
            scene.world.storages.put(where, scene.naming.node(node), scene.naming.text(name), size_bytes, fmt)

    return edit


def pvcs(
    storage: str,
    series: str,
    numbers: Iterable[int],
    size_bytes: int = GIB,
    *,
    qcow2: Iterable[int] = (),
    node: str = "pve1",
) -> Edit:
    """Disks of a numbered series of the placeholder owner: vm-9999-pvc-<series>-...-<number>."""
    stem = f"9999/vm-9999-pvc-{series}-0000-0000-0000-"
    names = [f"{stem}{n:012d}.raw" for n in numbers] + [f"{stem}{n:012d}.qcow2" for n in qcow2]
    return volumes(storage, names, size_bytes, node=node)


def storage_added(
    name: str, kind: str, content: str, size_bytes: int, used_bytes: int = 0, **options: str | int
) -> Edit:
    """A storage that an administrator configured; `disable` and `unmounted` may be among the options."""

    async def edit(scene: Scene) -> None:
        renamed = scene.naming.storage(name)
        disabled, unmounted = bool(options.get("disable")), bool(options.get("unmounted"))
        shown = {
            key: scene.naming.value(value) for key, value in options.items() if key not in ("disable", "unmounted")
        }
        scene.world.storages.definitions[renamed] = Storage(
            renamed, kind, content.split(","), shared=False, nodes=[], disabled=disabled, options=shown,
            size_bytes=size_bytes, base_used_bytes=used_bytes, unmounted=unmounted,
        )  # fmt: skip

    return edit


def storage_removed(name: str) -> Edit:
    """A storage that an administrator took away."""

    async def edit(scene: Scene) -> None:
        scene.world.storages.definitions.pop(scene.naming.storage(name), None)

    return edit


def storage_enabled(name: str) -> Edit:
    """A storage that was disabled and is no longer."""

    async def edit(scene: Scene) -> None:
        scene.storage(name).disabled = False

    return edit


def token_may(auth: str, privileges: Iterable[str], *, user_too: bool = True) -> Edit:
    """The token's rights on / (and its user's), through a role of its own; whatever it had on / before is gone."""

    async def edit(scene: Scene) -> None:
        access = scene.world.access
        token = ensure_token(scene.world, TOKENS[auth])
        role = f"Role-{auth}"
        access.custom_roles[role] = set(privileges)
        access.acl[AclKey("/", "token", token.full_id, role)] = True
        if user_too:
            access.acl[AclKey("/", "user", token.userid, "Administrator")] = True

    return edit


def token_loses_root(auth: str) -> Edit:
    """The token has no rights on / any more."""

    async def edit(scene: Scene) -> None:
        token = ensure_token(scene.world, TOKENS[auth])
        scene.world.access.acl.pop(AclKey("/", "token", token.full_id, f"Role-{auth}"), None)

    return edit


def vm_gone(*vmids: int) -> Edit:
    """VMs destroyed with the disks they owned, if they were there."""

    async def edit(scene: Scene) -> None:
        storages = scene.world.storages
        for vmid in map(scene.naming.vmid, vmids):
            scene.world.vms.pop(vmid, None)
            for place in [place for place, volume in storages.volumes.items() if volume.owner == vmid]:
                del storages.volumes[place]

    return edit


def powered_off(*vmids: int) -> Edit:
    """VMs stopped with their host or by hand; pending changes apply at the next start."""

    async def edit(scene: Scene) -> None:
        for vmid in vmids:
            await scene.send("root", "POST", f"/nodes/{scene.vm(vmid).node}/qemu/{vmid}/status/stop")

    return edit


def host_is(name: str, how: Darkness) -> Edit:
    """A host goes dark, or comes back ("")."""

    async def edit(scene: Scene) -> None:
        scene.world.broadcasts.darken(scene.naming.node(name), how)

    return edit


def quorum(present: bool) -> Edit:
    """The cluster loses or regains its quorum."""

    async def edit(scene: Scene) -> None:
        scene.world.quorate = present

    return edit


def asked_at(name: str) -> Edit:
    """From here on the recorder talks to this host."""

    async def edit(scene: Scene) -> None:
        scene.entry = scene.naming.node(name)

    return edit


def config_flock(vmid: int, held: bool) -> Edit:
    """Somebody holds the lock file of a VM's configuration, or lets it go."""

    async def edit(scene: Scene) -> None:
        if held:
            await scene.vm(vmid).config_lock.acquire()
        else:
            scene.vm(vmid).config_lock.release()

    return edit


def storage_lock(name: str, held: bool) -> Edit:
    """Somebody holds a storage's lock, or lets it go."""

    async def edit(scene: Scene) -> None:
        locked = scene.world.storages.locked
        (locked.add if held else locked.discard)(scene.naming.storage(name))

    return edit


def vm_config(vmid: int, **entries: str) -> Edit:
    """A VM's configuration file edited by hand."""

    async def edit(scene: Scene) -> None:
        scene.vm(vmid).conf |= {key: scene.naming.text(value) for key, value in entries.items()}

    return edit


def guest_tells(vmid: int, agent: GuestAgent) -> Edit:
    """What runs in a VM answers this through its guest agent."""

    async def edit(scene: Scene) -> None:
        scene.vm(vmid).agent = agent

    return edit


def guest_listens(vmid: int, listens: bool) -> Edit:
    """Whether the guest hears ACPI requests (a VM without an operating system does not)."""

    async def edit(scene: Scene) -> None:
        scene.vm(vmid).guest_dead = not listens

    return edit


def snapshot_half_made(vmid: int, name: str) -> Edit:
    """A snapshot that broke off: it is in the configuration, and the lock is left."""

    async def edit(scene: Scene) -> None:
        vm = scene.vm(vmid)
        vm.snapshots[name] = Snapshot(name, dict(vm.conf), scene.world.clock.time(), parent=vm.parent)
        vm.conf["lock"] = "snapshot"

    return edit


def waited(seconds: float) -> Edit:
    """The recorder waited, for something that takes time by itself."""

    async def edit(scene: Scene) -> None:
        await scene.world.clock.sleep(seconds)

    return edit


def machine_fault(method: str, path: str) -> Edit:
    """Something that the recording machine lacked (KVM, a tool) makes the next task of this kind fail.

    Only that it failed is replayed, for the state that follows; its text was the machine's, not Proxmox VE's.
    """

    async def edit(scene: Scene) -> None:
        action = task_fails("the recording machine could not")
        scene.world.faults.add(Rule(action, method, scene.naming.text(path)))

    return edit


def worker_killed(kind: str) -> Edit:
    """kill -9 of the running task of that type."""

    async def edit(scene: Scene) -> None:
        for task in [
            task for task in scene.world.tasks.by_upid.values() if task.type == kind and task.exitstatus is None
        ]:
            await scene.world.tasks.kill(task, hard=True)

    return edit


def worker_recycled(method: str, path: str) -> Edit:
    """The daemon's worker process that got the next such request ended just then; it did nothing with it."""

    async def edit(scene: Scene) -> None:
        scene.world.faults.add(Rule(answer(596, "Broken pipe"), method, scene.naming.text(path)))

    return edit


def volume_damaged(storage: str, name: str, damage: Damage, *, node: str = "pve1") -> Edit:
    """A disk that somebody made and that QEMU cannot open."""

    async def edit(scene: Scene) -> None:
        await volumes(storage, [name], node=node)(scene)
        volume = scene.world.storages.find_volume(
            f"{scene.naming.storage(storage)}:{scene.naming.text(name)}", scene.naming.node(node)
        )
        assert volume is not None
        volume.damage = damage

    return edit


def acl_gone(auth: str, path: str) -> Edit:
    """A token's access-control entries on a path were removed."""

    async def edit(scene: Scene) -> None:
        acl, where = scene.world.access.acl, scene.naming.text(path)
        for key in [key for key in acl if key.who == TOKENS[auth] and key.path == where]:
            del acl[key]

    return edit


def hosts_restarted() -> Edit:
    """Nobody has heard anything of the hosts' guests and storages since."""

    async def edit(scene: Scene) -> None:
        scene.world.broadcasts.forget()

    return edit
