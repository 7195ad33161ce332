"""What a cluster consists of, in memory: one poller per region, so that nobody else asks for lists.

Lists are filtered by the token's rights and lag; a guest that is missing here is not proved absent (`Locator.find`
decides). Values are frozen and carry a generation and a time; a reader asks how old they are.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import Any

from appkit.background import Background
from appkit.clock import Clock
from appkit.errors import DriverError, Unavailable
from appkit.logs import get_logger
from pvekit.cluster import Cluster
from pvekit.models import NodeEntry, StorageDefinition, StorageState, VmEntry
from pvekit.purpose import purpose
from pvekit.scalars import as_str
from pvekit.storage import Storage

_log = get_logger(__name__)

POLL_S = 10.0
"""Proxmox VE's own status broadcast is as old; asking more often shows nothing new."""
DEFINITIONS_POLL_S = 60.0
TURN_S = 60.0
_REMEMBERED = 1000
"""How many guests that left the list are remembered with their last host."""


class Trust(StrEnum):
    """How far a reading can be believed."""

    NONE = "none"
    """Nothing was read yet."""
    PARTIAL = "partial"
    """A host is offline: its guests' status and its storages' sizes are old values."""
    FULL = "full"
    """Every host reports."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of /cluster/resources, and the latest of /storage. `generation` grows with each reading."""

    generation: int
    taken_at: datetime
    trust: Trust
    vms: Mapping[int, VmEntry]
    nodes: Mapping[str, NodeEntry]
    storages: Mapping[tuple[str, str], StorageState]
    definitions: Mapping[str, StorageDefinition]


class _Reading:
    """One request under way; its number is given when it begins, so that callers before that may share it."""

    task: asyncio.Task[None]
    number: int = 0


class Inventory:
    """One poller per region: /cluster/resources every 10 s, /storage every 60 s, both in the background.

    All readers but `refresh` and `wait_ready` are synchronous and cost no request. `with_storages` False leaves
    /storage out. `ask_elsewhere` is called, once a minute at most, when the answering host sees no majority of the
    hosts online: it may be the one that is cut off.
    """

    def __init__(
        self,
        region: str,
        cluster: Cluster,
        storage: Storage,
        clock: Clock,
        *,
        with_storages: bool = True,
        ask_elsewhere: Callable[[], None] = lambda: None,
    ) -> None:
        self._region = region
        self._cluster = cluster
        self._storage = storage
        self._clock = clock
        self._with_storages = with_storages
        self._ask_elsewhere = ask_elsewhere
        self._turned_at = -inf
        self._snapshot = Snapshot(0, clock.now(), Trust.NONE, {}, {}, {}, {})
        self._read_at = -inf
        self._definitions_at = -inf
        self._online_at: dict[str, float] = {}
        self._departed: dict[int, str] = {}
        self._begun = 0
        self._done = 0
        self._reading: _Reading | None = None
        self._ready = asyncio.Event()
        self._trouble: DriverError | None = None
        self._background = Background()

    def start(self) -> None:
        """Begin to poll; needs a running loop."""
        self._background.start(f"inventory {self._region}", self._poll())

    async def aclose(self) -> None:
        """Stop polling."""
        await self._background.aclose()
        if self._reading is not None:
            self._reading.task.cancel()
            await asyncio.gather(self._reading.task, return_exceptions=True)

    async def watch(self) -> None:
        """Wait for ever; raises BackgroundFailed when the polling has ended by itself."""
        await self._background.run_until(asyncio.Event())

    async def wait_ready(self, timeout_s: float | None) -> None:
        """Wait for the first reading, None: for ever; raises Unavailable with the last error's text."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            why = f": {self._trouble}" if self._trouble else ""
            raise Unavailable(f"region {self._region} was not read within {timeout_s} s{why}") from self._trouble

    async def refresh(self) -> Snapshot:
        """A reading that began after this call; concurrent callers share one. Raises what the request raised."""
        wanted = self._begun + 1
        while self._done < wanted:
            reading = self._reading
            if reading is None:
                reading = self._reading = _Reading()
                reading.task = asyncio.get_running_loop().create_task(self._read(reading))
            try:
                await asyncio.shield(reading.task)
            except DriverError:
                # The failure of a reading that began earlier says nothing about the one that was asked for.
                if reading.number >= wanted:
                    raise
        return self._snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The latest reading."""
        return self._snapshot

    @property
    def trouble(self) -> DriverError | None:
        """Why the latest attempt to read failed; None when it did not."""
        return self._trouble

    def age_s(self) -> float:
        """Seconds since the latest reading began; infinity before the first."""
        return self._clock.monotonic() - self._read_at

    @property
    def has_majority(self) -> bool:
        """Whether more than half of the hosts are online, as the answering host sees it."""
        hosts = self._snapshot.nodes.values()
        return sum(host.online for host in hosts) * 2 > len(hosts)

    def silent_s(self, node: str) -> float:
        """Seconds since a host was last seen online; 0 while it is, infinity when it never was."""
        entry = self._snapshot.nodes.get(node)
        if entry is not None and entry.online:
            return 0.0
        return self._clock.monotonic() - self._online_at.get(node, -inf)

    def vm(self, vmid: int) -> VmEntry | None:
        """A guest as listed, containers too; None is not absence (lists are filtered by rights): ask `Locator.find`."""
        return self._snapshot.vms.get(vmid)

    def last_host(self, vmid: int) -> str | None:
        """The host that a guest is on, or was when it left the list; None when this process never saw it."""
        entry = self.vm(vmid)
        return self._departed.get(vmid) if entry is None else entry.node

    def vms(self) -> list[VmEntry]:
        """Every QEMU guest listed, templates included, by id; containers are left out."""
        return [entry for _, entry in sorted(self._snapshot.vms.items()) if entry.type == "qemu"]

    def nodes(self) -> list[NodeEntry]:
        """Every host, by name. This list is not filtered."""
        return [entry for _, entry in sorted(self._snapshot.nodes.items())]

    def storages(self, node: str | None = None) -> list[StorageState]:
        """What `storage_on` answers for every host (or one) and storage, by host and name."""
        nodes = sorted(self._snapshot.nodes) if node is None else [node]
        names = {name for _, name in self._snapshot.storages} | set(self._snapshot.definitions)
        found = (self.storage_on(each, name) for each in nodes for name in sorted(names))
        return [state for state in found if state is not None]

    def storage_on(self, node: str, storage: str) -> StorageState | None:
        """A storage on a host; None when it is not meant for that host or not visible.

        Without Datastore.Audit the resource list shows no storages; the definition stands in, with sizes None.
        """
        if state := self._snapshot.storages.get((node, storage)):
            return state
        definition, host = self._snapshot.definitions.get(storage), self._snapshot.nodes.get(node)
        if definition is None or host is None or not definition.on(node):
            return None
        status = "available" if host.online else "unknown"
        return StorageState(node, storage, definition.type, definition.shared, definition.content, status, None, None)

    def definition(self, storage: str) -> StorageDefinition | None:
        """A storage's definition; None when there is none or the token may not see it."""
        return self._snapshot.definitions.get(storage)

    def definitions(self) -> list[StorageDefinition]:
        """Every definition the token may see, by name."""
        return [definition for _, definition in sorted(self._snapshot.definitions.items())]

    async def _poll(self) -> None:
        with purpose("background"):
            while True:
                with suppress(DriverError):
                    await self.refresh()
                await self._clock.sleep(POLL_S)

    async def _read(self, reading: "_Reading") -> None:
        self._begun += 1
        reading.number, began_at = self._begun, self._clock.monotonic()
        try:
            entries = await self._cluster.resources()
            definitions = await self._read_definitions(began_at)
        except DriverError as error:
            if str(error) != str(self._trouble):
                _log.warning("inventory not read", extra={"region": self._region, "error": str(error)})
            self._trouble = error
            raise
        finally:
            self._reading = None
        before = self._snapshot.vms
        self._snapshot = _snapshot(reading.number, self._clock.now(), entries, definitions)
        self._remember_hosts(before)
        self._read_at, self._done, self._trouble = began_at, reading.number, None
        if not self.has_majority and began_at - self._turned_at >= TURN_S:
            self._turned_at = began_at
            self._ask_elsewhere()
        self._online_at.update({name: began_at for name, entry in self._snapshot.nodes.items() if entry.online})
        self._ready.set()

    def _remember_hosts(self, before: Mapping[int, VmEntry]) -> None:
        now = self._snapshot.vms
        for vmid in self._departed.keys() & now.keys():
            del self._departed[vmid]
        self._departed.update({vmid: entry.node for vmid, entry in before.items() if vmid not in now})
        for vmid in list(self._departed)[:-_REMEMBERED]:
            del self._departed[vmid]

    async def _read_definitions(self, now: float) -> Mapping[str, StorageDefinition]:
        """Anew when they are due; the old ones when that fails, since they hardly ever change."""
        if not self._with_storages or now - self._definitions_at < DEFINITIONS_POLL_S:
            return self._snapshot.definitions
        try:
            with purpose("background"):
                found = await self._storage.definitions()
        except DriverError as error:
            if self._definitions_at == -inf:
                raise
            _log.warning("storage definitions not read", extra={"region": self._region, "error": str(error)})
            return self._snapshot.definitions
        self._definitions_at = now
        return MappingProxyType({definition.id: definition for definition in found})


def _snapshot(
    generation: int,
    taken_at: datetime,
    entries: Iterable[Mapping[str, Any]],
    definitions: Mapping[str, StorageDefinition],
) -> Snapshot:
    vms: dict[int, VmEntry] = {}
    nodes: dict[str, NodeEntry] = {}
    storages: dict[tuple[str, str], StorageState] = {}
    for entry in entries:
        match as_str(entry.get("type")):
            case "qemu" | "lxc":
                if vm := VmEntry.parse(entry):
                    vms[vm.vmid] = vm
            case "node":
                if node := NodeEntry.parse(entry):
                    nodes[node.name] = node
            case "storage":
                if storage := StorageState.parse(entry):
                    storages[storage.node, storage.storage] = storage
    trust = Trust.FULL if all(node.online for node in nodes.values()) else Trust.PARTIAL
    return Snapshot(
        generation,
        taken_at,
        trust,
        MappingProxyType(vms),
        MappingProxyType(nodes),
        MappingProxyType(storages),
        definitions,
    )
