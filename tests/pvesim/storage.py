"""The storages of the cluster and the volumes on them: find, allocate, free, grow, copy.

Must not check permissions (handlers do) and must not know VM configurations.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.pvesim.blocks import BlockBackend
from tests.pvesim.clock import SimClock
from tests.pvesim.errors import ApiError, die
from tests.pvesim.plugins import PLUGINS, ParsedName, Plugin, free_number, round_up
from tests.pvesim.profile import Profile
from tests.pvesim.state import Storage, Volume

LOCK_TIMEOUT_S = 10.0


class Storages:
    """storage.cfg and what lies on it."""

    def __init__(self, clock: SimClock, blocks: BlockBackend, profile: Profile) -> None:
        self._clock = clock
        self._profile = profile
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._blocks = blocks
        self.definitions: dict[str, Storage] = {}
        self.volumes: dict[tuple[str, str, str], Volume] = {}
        # Storages whose lock someone holds: allocation and deletion time out after 10 s.
        self.locked: set[str] = set()
        self.quorate = True

    def find(self, storage_id: str) -> Storage | None:
        """The definition, if any."""
        return self.definitions.get(storage_id)

    def get(self, storage_id: str) -> Storage:
        """The definition; 500 as Proxmox VE says it."""
        storage = self.definitions.get(storage_id)
        if storage is None:
            raise die(f"storage '{storage_id}' does not exist")
        return storage

    def get_usable(self, storage_id: str, node: str) -> Storage:
        """A definition that is enabled and on this node."""
        storage = self.get(storage_id)
        if not storage.is_on(node):
            raise die(f"storage '{storage_id}' is not available on node '{node}'")
        if storage.disabled:
            raise die(f"storage '{storage_id}' is disabled")
        return storage

    def activate(self, storage_id: str, node: str) -> Storage:
        """Usable and mounted."""
        storage = self.get_usable(storage_id, node)
        if storage.unmounted:
            raise plugin_of(storage).not_active(storage)
        return storage

    def split(self, volid: str) -> tuple[Storage, str]:
        """(storage, name) of a volume id; 500 for an unknown storage or no volume id at all."""
        storage_id, colon, name = volid.partition(":")
        if not colon or not name:
            raise die(f"unable to parse volume ID '{volid}'")
        return self.get(storage_id), name

    def parse(self, volid: str) -> ParsedName:
        """A volume id taken apart by its storage's rules."""
        storage, name = self.split(volid)
        return plugin_of(storage).parse(storage, name)

    def owner_of(self, volid: str) -> int | None:
        """The VM id that owns it by name; None if it cannot be told."""
        try:
            return self.parse(volid).owner
        except ApiError:
            return None

    def find_volume(self, volid: str, node: str) -> Volume | None:
        """The volume as this node sees it."""
        storage_id, _, name = volid.partition(":")
        storage = self.definitions.get(storage_id)
        if storage is None:
            return None
        return self.volumes.get(self._key(storage, node, name))

    def get_for_attach(self, volid: str, node: str) -> Volume:
        """The volume, with the texts of activation when something is wrong."""
        storage, name = self.split(volid)
        plugin_of(storage).parse(storage, name)
        self.activate(storage.storage_id, node)
        volume = self.volumes.get(self._key(storage, node, name))
        if volume is None:
            raise plugin_of(storage).attach_missing(storage, name)
        return volume

    def on(self, storage: Storage, node: str) -> Iterator[Volume]:
        """The volumes of a storage, as this node sees them."""
        where = "" if storage.shared else node
        return (v for (sid, n, _), v in self.volumes.items() if sid == storage.storage_id and n == where)

    def has_clones(self, volid: str, node: str) -> bool:
        """Whether linked clones stand on the volume."""
        storage, name = self.split(volid)
        plugin = plugin_of(storage)
        return any(plugin.parse(storage, volume.name).base == name for volume in self.on(storage, node))

    def used_bytes(self, storage: Storage, node: str) -> int:
        """Space taken: what others use, and the volumes (files and thin volumes are sparse)."""
        thick = plugin_of(storage).is_thick(storage)
        return storage.base_used_bytes + sum(v.size_bytes if thick else v.used_bytes for v in self.on(storage, node))

    def put(self, storage: Storage, node: str, name: str, size_bytes: int, fmt: str) -> Volume:
        """Record a volume without allocating (worlds are built with it)."""
        parsed = plugin_of(storage).parse(storage, name)
        volume = Volume(
            storage.storage_id, "" if storage.shared else node, name, parsed.owner or 0, fmt, size_bytes,
            self._clock.time(), content=parsed.content, parent=parsed.base,
        )  # fmt: skip
        self.volumes[self._key(storage, node, name)] = volume
        return volume

    async def allocate(self, storage: Storage, node: str, name: str, size_bytes: int, fmt: str) -> Volume:
        """A new volume of this exact name."""
        async with self._lock(storage, node):
            return await self._create(storage, node, name, size_bytes, fmt)

    async def allocate_next(
        self, storage: Storage, node: str, vmid: int, size_bytes: int, fmt: str, *, base: str = ""
    ) -> Volume:
        """The VM's next own disk, on top of `base` for a linked clone.

        The name is searched under the storage's lock, and on a directory every image of that owner is looked at.
        """
        async with self._lock(storage, node):
            if plugin_of(storage).looks_into_images:
                own = sum(1 for volume in self.on(storage, node) if volume.owner == vmid)
                await self._clock.sleep(own * self._profile.image_info_s)
            name = self.next_disk_name(storage, node, vmid, fmt)
            return await self._create(storage, node, f"{base}/{name}" if base else name, size_bytes, fmt)

    async def _create(self, storage: Storage, node: str, name: str, size_bytes: int, fmt: str) -> Volume:
        await self._clock.sleep(self._profile.alloc_s)
        if self._key(storage, node, name) in self.volumes:
            raise plugin_of(storage).exists_error(storage, name)
        real_bytes = round_up(size_bytes, plugin_of(storage).size_step_bytes)
        free_bytes = storage.size_bytes - self.used_bytes(storage, node)
        if plugin_of(storage).is_thick(storage) and real_bytes > free_bytes:
            raise plugin_of(storage).no_space(storage, name, free_bytes, real_bytes)
        volume = self.put(storage, node, name, real_bytes, fmt)
        if fmt == "qcow2":
            volume.used_bytes = 196_608 + (size_bytes >> 13)
        await self._blocks.allocate(volume)
        return volume

    async def free(self, volid: str, node: str) -> list[str]:
        """Delete; the log lines. Missing volumes fail or not by type."""
        storage, name = self.split(volid)
        if (refusal := plugin_of(storage).free_refused()) is not None:
            raise refusal
        await self._clock.sleep(self._profile.free_s)
        async with self._lock(storage, node):
            return await self._remove(storage, node, name)

    async def _remove(self, storage: Storage, node: str, name: str) -> list[str]:
        plugin = plugin_of(storage)
        volume = self.volumes.get(self._key(storage, node, name))
        if volume is None:
            if plugin.deleting_missing_fails:
                raise die(plugin.delete_missing(storage, name))
            missing = plugin.delete_missing(storage, name)
            return [missing] if missing else []
        if volume.holders and (refusal := plugin.in_use_error(storage, name)) is not None:
            raise refusal
        del self.volumes[self._key(storage, node, name)]
        await self._blocks.free(volume)
        return plugin.freed_lines(name)

    async def discard(self, volume: Volume, node: str) -> None:
        """Take a half-made volume away, if it is still there."""
        storage = self.get(volume.storage)
        if self.volumes.get(self._key(storage, node, volume.name)) is volume:
            del self.volumes[self._key(storage, node, volume.name)]
            await self._blocks.free(volume)

    async def grow(self, volume: Volume, size_bytes: int) -> None:
        """A bigger volume."""
        storage = self.get(volume.storage)
        volume.size_bytes = round_up(size_bytes, plugin_of(storage).size_step_bytes)
        await self._blocks.resize(volume)

    def send(self, volume: Volume, node: str) -> None:
        """A local volume lies on another host from now on, under the same name."""
        del self.volumes[self._key(self.get(volume.storage), volume.node, volume.name)]
        volume.node = node
        self.volumes[self._key(self.get(volume.storage), node, volume.name)] = volume

    def replicate(self, volume: Volume, node: str) -> None:
        """A second, local volume of that name on another host, as the first is now."""
        storage = self.get(volume.storage)
        copy = replace(volume, node=node, holders=set(), snapshots=dict(volume.snapshots))
        self.volumes[self._key(storage, node, volume.name)] = copy

    async def copy(self, source: Volume, target: Volume) -> None:
        """Copy contents."""
        await self._blocks.copy(source, target)

    async def rename(self, volume: Volume, node: str, name: str) -> None:
        """Another name, and with it another owner."""
        storage = self.get(volume.storage)
        del self.volumes[self._key(storage, node, volume.name)]
        former, volume.name = volume.name, name
        volume.owner = plugin_of(storage).parse(storage, name).owner or 0
        self.volumes[self._key(storage, node, name)] = volume
        await self._blocks.rename(volume, former)

    def next_disk_name(self, storage: Storage, node: str, vmid: int, fmt: str, kind: str = "vm") -> str:
        """The name Proxmox VE gives the VM's next own disk."""
        number = free_number(vmid, [v.name for v in self.on(storage, node)])
        return plugin_of(storage).disk_name(vmid, kind, number, fmt)

    def path_of(self, volume: Volume) -> str:
        """The path on the host."""
        return self.path_in(self.get(volume.storage), volume.name)

    def path_in(self, storage: Storage, name: str) -> str:
        """The path that a volume of this name has or would have."""
        return plugin_of(storage).path(storage, name)

    @asynccontextmanager
    async def _lock(self, storage: Storage, node: str) -> AsyncIterator[None]:
        """The storage's lock: of the host for a local one, of the cluster for a shared one; 10 s, then 500."""
        if storage.shared and not self.quorate:
            await self._clock.sleep(LOCK_TIMEOUT_S)
            raise die(f"cfs-lock 'storage-{storage.storage_id}' error: no quorum!")
        if storage.storage_id in self.locked:
            await self._clock.sleep(LOCK_TIMEOUT_S)
            raise self._lock_refused(storage)
        lock = self._locks.setdefault((storage.storage_id, "" if storage.shared else node), asyncio.Lock())
        try:
            async with self._clock.timeout(LOCK_TIMEOUT_S):
                await lock.acquire()
        except TimeoutError:
            raise self._lock_refused(storage) from None
        try:
            yield
        finally:
            lock.release()

    @staticmethod
    def _lock_refused(storage: Storage) -> ApiError:
        if storage.shared:
            return die(f"cfs-lock 'storage-{storage.storage_id}' error: got lock request timeout")
        return die(f"can't lock file '/var/lock/pve-manager/pve-storage-{storage.storage_id}' - got timeout")

    @staticmethod
    def _key(storage: Storage, node: str, name: str) -> tuple[str, str, str]:
        return storage.storage_id, "" if storage.shared else node, name


def plugin_of(storage: Storage) -> Plugin:
    """The rules of a storage's type; KeyError for a type the simulator does not have."""
    return PLUGINS[storage.type]
