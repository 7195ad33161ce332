"""Mutual exclusion that waits, by key, inside one process.

Must not be used to refuse duplicates (csikit.inflight answers "still running" instead) nor across processes (the
Proxmox digest and the Lease do that).
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class _Entry:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class KeyedLock:
    """One lock per key, first come first served; an entry exists only while somebody holds or awaits it."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Wait until nobody else holds `key`, hold it for the body. Not re-entrant."""
        entry = self._entries.setdefault(key, _Entry())
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._entries[key]
