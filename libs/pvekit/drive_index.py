"""Which VM refers to which volume: in its config, in its waiting changes, as unusedN, or in a snapshot.

Proxmox VE has no such index and refuses neither a second attachment nor the deletion of a volume in use, so whoever
wants to do either must have looked through every VM. Reading is done in the background, with a budget of its own:
every VM once a minute at most and one a second, four at once while something is missing. It must never answer with a
short list: what could not be read is an error, not "nobody". What it answers may be a minute old; a caller about to
refuse something for it asks `reread` first.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from appkit.background import Background
from appkit.clock import Clock
from appkit.errors import Denied, DriverError, Unavailable
from appkit.logs import get_logger
from pvekit.cluster import Cluster
from pvekit.drives import Drive, is_drive_key, is_unused_key
from pvekit.errors import VmNotHere
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.models import VmEntry
from pvekit.presence import Absent, Present, Unknown
from pvekit.purpose import purpose
from pvekit.scalars import as_str
from pvekit.vm_config import VmConfig
from pvekit.vms import Vms

_log = get_logger(__name__)

REREAD_S = 60.0
"""How often a VM is read in steady state."""
STEADY_S = 1.0
"""Least time between two background reads once every VM has been read."""
MAX_READS = 4
_RIGHTS_S = 60.0
_SETTLE_TRIES = 3

State = Literal["live", "pending", "unused", "snapshot"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A reference to a volume: `live` (the guest has it), `pending` (waits to be plugged), `unused` or `snapshot`.

    `key` is the config key, for snapshots `<snapshot>/<key>`. A live entry that waits to be deleted is still live.
    """

    vmid: int
    node: str
    key: str
    state: State


@dataclass(frozen=True, slots=True)
class _Ref:
    volid: str
    key: str
    state: State


@dataclass(frozen=True)
class _Entry:
    """What is known of one VM. `digest` is the config's; `snapshots_digest` the one the snapshots were read under."""

    node: str
    digest: str = ""
    refs: tuple[_Ref, ...] = ()
    read_at: float = -inf
    snapshots: Mapping[tuple[str, str], tuple[_Ref, ...]] = field(default_factory=dict)
    snapshots_digest: str = ""
    snapshots_at: float = -inf
    trouble: DriverError | None = None
    trouble_at: float = -inf

    def whole_since(self) -> float:
        return self.read_at if self.snapshots_digest == self.digest else min(self.read_at, self.snapshots_at)


class DriveIndex:
    """The index of one region."""

    def __init__(
        self, region: str, inventory: Inventory, locator: Locator, vms: Vms, cluster: Cluster, clock: Clock
    ) -> None:
        self._region = region
        self._inventory = inventory
        self._locator = locator
        self._vms = vms
        self._cluster = cluster
        self._clock = clock
        self._entries: dict[int, _Entry] = {}
        self._reads: dict[int, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_READS)
        self._rights: Mapping[str, Mapping[str, bool]] = {}
        self._rights_at = -inf
        self._rights_lock = asyncio.Lock()
        self._others_know: Callable[[], Iterable[int]] = tuple
        self._absent_at: dict[int, float] = {}
        self._claims: dict[int, frozenset[str]] = {}
        self._background = Background()

    def expect(self, others_know: Callable[[], Iterable[int]]) -> None:
        """VMs that somebody else knows of: `holders` answers only when each is listed or proved absent.

        Proxmox VE leaves a VM on whose path the token has NoAccess out of every list, its own rights included; a
        process that has not seen the VM before could not notice.
        """
        self._others_know = others_know

    def start(self) -> None:
        """Begin to read in the background; needs a running loop."""
        self._background.start(f"drive index {self._region}", self._run())

    async def aclose(self) -> None:
        """Stop."""
        await self._background.aclose()
        reads = tuple(self._reads.values())
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)

    async def read(self, node: str, vmid: int) -> VmConfig:
        """`Vms.pending`, and keep what it says of drives: everybody who reads a VM's config reads it here.

        Of two readings that overlap the one that began later counts: the other may be the older state, however late
        it arrives.
        """
        began_at = self._clock.monotonic()
        config = await self._vms.pending(node, vmid)
        before = self._entries.get(vmid, _Entry(node))
        if began_at >= before.read_at:
            self._entries[vmid] = replace(
                before, node=node, digest=config.digest, refs=tuple(_refs_of(config)), read_at=began_at, trouble=None
            )
        return config

    async def holders(
        self, volid: str, *, max_age_s: float = 60.0, nodes: frozenset[str] | None = None, with_snapshots: bool = False
    ) -> list[Holder]:
        """Every reference to a volume, none older than `max_age_s`; what is older is read now, in the background's
        name.

        `nodes` restricts to VMs on hosts that can have the volume: the same volid on another host names another volume.
        `with_snapshots`: snapshots count, so a VM whose config changed since they were listed is read again, however
        young that is.
        Raises Denied (VM.Audit, with its path) when the token cannot see every VM, and Unavailable when a VM could not
        be read. For a host that fell silent, what was read while it was up counts: its VMs cannot be changed, and one
        that is restarted elsewhere shows up there.
        """
        with purpose("background"):
            await self._require_rights(max_age_s)
            if self._inventory.age_s() > max_age_s:
                await self._inventory.refresh()
            await self._forget_absent(nodes, max_age_s)
            wanted = [vm for vm in self._inventory.vms() if nodes is None or vm.node in nodes]
            missing = [
                vm for vm in wanted if not self._usable(vm.vmid, vm.node, max_age_s, len(wanted), with_snapshots)
            ]
            for vm in missing:
                if self._inventory.silent_s(vm.node):
                    raise Unavailable(
                        f"whether VM {vm.vmid} uses {volid} cannot be known: its host {vm.node} is offline, and its "
                        "config was not read while the host was up"
                    )
            await asyncio.gather(*(self._read_once(vm.vmid, vm.node) for vm in missing))
        for vm in missing:
            entry = self._entries.get(vm.vmid)
            if entry is not None and entry.trouble is not None:
                raise _cannot_know(volid, vm.vmid, entry.node, entry.trouble) from entry.trouble
        found = [
            Holder(vmid, entry.node, ref.key, ref.state)
            for vmid, entry in self._entries.items()
            if nodes is None or entry.node in nodes
            for ref in _all_refs(entry)
            if ref.volid == volid
        ]
        known = {holder.vmid for holder in found if holder.state in ("live", "pending")}
        found += [
            Holder(vmid, self._entries.get(vmid, _Entry("")).node, "change under way", "pending")
            for vmid, volids in self._claims.items()
            if volid in volids and vmid not in known
        ]
        return sorted(found, key=lambda holder: (holder.vmid, holder.key))

    def claim(self, vmid: int, volids: Iterable[str]) -> None:
        """Volumes that a change under way may give to a VM: `holders` names it until `release`."""
        self._claims[vmid] = self._claims.get(vmid, frozenset()).union(volids)

    def release(self, vmid: int) -> None:
        """The VM was read after its last change had ended: its config tells all."""
        self._claims.pop(vmid, None)

    async def reread(self, vmids: Iterable[int]) -> None:
        """Read these VMs now, in the background's name; those of silent hosts cannot have changed and are left out."""
        with purpose("background"):
            vms = [vm for vmid in vmids if (vm := self._inventory.vm(vmid)) is not None]
            up = [vm for vm in vms if self._inventory.silent_s(vm.node) == 0]
            await asyncio.gather(*(self._read_once(vm.vmid, vm.node) for vm in up))

    async def watch(self) -> None:
        """Wait for ever; raises BackgroundFailed when the reading has ended by itself."""
        await self._background.run_until(asyncio.Event())

    @property
    def complete(self) -> bool:
        """Whether every VM listed has been read at least once."""
        return self.age_s() < inf

    def age_s(self) -> float:
        """Age of the oldest entry; infinity while a listed VM has not been read, or nothing is listed yet."""
        if self._inventory.age_s() == inf:
            return inf
        now, unread = self._clock.monotonic(), _Entry("")
        return max(
            (now - self._entries.get(vm.vmid, unread).whole_since() for vm in self._inventory.vms()), default=0.0
        )

    async def _run(self) -> None:
        with purpose("background"):
            await self._inventory.wait_ready(None)
            while True:
                due = self._due()
                unread = [vm for vm in due if vm.vmid not in self._entries]
                if unread:
                    await asyncio.gather(*(self._read_once(vm.vmid, vm.node) for vm in unread[:MAX_READS]))
                    continue
                for vm in due[:1]:
                    await self._read_once(vm.vmid, vm.node)
                await self._clock.sleep(STEADY_S)

    def _due(self) -> list[VmEntry]:
        """VMs on hosts that are up and not read for a minute, the longest unread first."""
        now, unread = self._clock.monotonic(), _Entry("")
        tried = [
            (max(entry.whole_since(), entry.trouble_at), vm)
            for vm in self._inventory.vms()
            if self._inventory.silent_s(vm.node) == 0
            for entry in (self._entries.get(vm.vmid, unread),)
        ]
        return [vm for at, vm in sorted(tried, key=lambda item: item[0]) if now - at >= REREAD_S]

    def _usable(self, vmid: int, node: str, max_age_s: float, count: int, with_snapshots: bool) -> bool:
        entry = self._entries.get(vmid)
        if entry is None or entry.node != node:
            return False
        age_s = self._clock.monotonic() - entry.whole_since()
        silent_s = self._inventory.silent_s(node)
        if 0 < silent_s < inf:
            # As old as a round of reading may leave it, counted at the moment its host fell silent.
            return age_s - silent_s <= max(max_age_s, 2 * REREAD_S, 2 * STEADY_S * count)
        if with_snapshots and entry.snapshots_digest != entry.digest:
            return False
        return age_s <= max_age_s and entry.trouble is None

    async def _read_once(self, vmid: int, node: str) -> None:
        """Read one VM; callers at the same time share it. Never raises: trouble is kept in the entry."""
        read = self._reads.get(vmid)
        if read is None:
            read = self._reads[vmid] = asyncio.get_running_loop().create_task(self._read(vmid, node))
            read.add_done_callback(lambda _: self._reads.pop(vmid, None))
        await asyncio.shield(read)

    async def _read(self, vmid: int, node: str) -> None:
        async with self._slots:
            try:
                try:
                    await self._read_from(vmid, node)
                except VmNotHere:
                    match await self._locator.find(vmid, fresh=True):
                        case Present(ref):
                            await self._read_from(vmid, ref.node)
                        case Absent():
                            self._entries.pop(vmid, None)
                        case Unknown(reason):
                            raise Unavailable(reason) from None
            except DriverError as error:
                before = self._entries.get(vmid, _Entry(node))
                self._entries[vmid] = replace(before, trouble=error, trouble_at=self._clock.monotonic())

    async def _read_from(self, vmid: int, node: str) -> None:
        for _ in range(_SETTLE_TRIES):
            began_at = self._clock.monotonic()
            config = await self.read(node, vmid)
            entry = self._entries[vmid]
            if entry.snapshots_digest == config.digest and config.digest:
                self._entries[vmid] = replace(entry, snapshots_at=began_at)
                return
            listed = await self._vms.snapshots(node, vmid)
            known = {}
            for snapshot in listed.snapshots:
                name, taken = as_str(snapshot.get("name")) or "", as_str(snapshot.get("snaptime")) or ""
                refs = entry.snapshots.get((name, taken))
                if refs is None:
                    values = await self._vms.config(node, vmid, snapshot=name)
                    refs = tuple(_refs_in(values, f"{name}/"))
                known[name, taken] = refs
            self._entries[vmid] = replace(
                self._entries[vmid], snapshots=known, snapshots_digest=config.digest, snapshots_at=began_at
            )
            # Deleting a snapshot moves volumes into the config: both must have been read from one state.
            if listed.digest in {"", config.digest}:
                return
        raise Unavailable(f"the config of VM {vmid} on {node} changes faster than it can be read")

    async def _forget_absent(self, nodes: frozenset[str] | None, max_age_s: float) -> None:
        """A VM that left the list is forgotten when it is proved absent; otherwise nobody may say what it holds."""
        listed = {vm.vmid for vm in self._inventory.vms()}
        known = {vmid for vmid, entry in self._entries.items() if nodes is None or entry.node in nodes}
        for vmid in sorted({*known, *self._others_know()} - listed):
            if self._clock.monotonic() - self._absent_at.get(vmid, -inf) <= max_age_s:
                continue
            match await self._locator.find(vmid):
                case Absent():
                    self._entries.pop(vmid, None)
                    self._absent_at[vmid] = self._clock.monotonic()
                case Present():
                    pass
                case Unknown(reason):
                    raise Unavailable(f"whether VM {vmid} still exists cannot be known: {reason}")

    async def _require_rights(self, max_age_s: float) -> None:
        async with self._rights_lock:
            if self._clock.monotonic() - self._rights_at > min(max_age_s, _RIGHTS_S):
                self._rights = await self._cluster.permissions()
                self._rights_at = self._clock.monotonic()
            hidden = _hidden_path(self._rights)
        if hidden is not None:
            self._rights_at = -inf  # whoever grants it shall not wait
            raise Denied(
                f"which VMs of region {self._region} use a volume cannot be known: the token may not see every VM; "
                f"grant VM.Audit on {hidden}, with propagation",
                privilege="VM.Audit",
                path=hidden,
            )


def _hidden_path(rights: Mapping[str, Mapping[str, bool]]) -> str | None:
    """The path on which VM.Audit is missing for seeing every VM; None when it is not."""
    if not rights.get("/vms", rights.get("/", {})).get("VM.Audit", False):
        return "/vms"
    return next(
        (path for path, held in sorted(rights.items()) if path.startswith("/vms/") and "VM.Audit" not in held), None
    )


def _cannot_know(volid: str, vmid: int, node: str, trouble: DriverError) -> DriverError:
    text = f"whether VM {vmid} on {node} uses {volid} cannot be known: {trouble}"
    if isinstance(trouble, Denied):
        return Denied(text, privilege=trouble.privilege, path=trouble.path)
    return Unavailable(text)


def _all_refs(entry: _Entry) -> Iterable[_Ref]:
    yield from entry.refs
    for refs in entry.snapshots.values():
        yield from refs


def _refs_of(config: VmConfig) -> Iterable[_Ref]:
    for key, drive in config.drives().items():
        yield _Ref(drive.volid, key, "live")
    for key, drive in config.pending_drives().items():
        if config.current.get(key) is None or config.drives().get(key) != drive:
            yield _Ref(drive.volid, key, "pending")
    for key, drive in config.unused().items():
        yield _Ref(drive.volid, key, "unused")


def _refs_in(values: Mapping[str, object], prefix: str) -> Iterable[_Ref]:
    """References in a snapshot's config; `vmstate` names the volume that holds the memory."""
    for key, value in values.items():
        text = as_str(value)
        if text and (is_drive_key(key) or is_unused_key(key) or key == "vmstate"):
            try:
                yield _Ref(Drive.parse(text).volid, f"{prefix}{key}", "snapshot")
            except ValueError:
                continue
