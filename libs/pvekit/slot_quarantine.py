"""Slots of one VM that must not be filled for a while.

When a guest does not let go of a controller in time, Proxmox VE gives up; a retry then succeeds at once, since the disk
behind it is gone. A new disk in that slot vanishes when the guest wakes up and finishes the old removal, while the
config still shows it (recorded, 9.2). Another failure leaves a QEMU object behind that makes every plug into that
slot fail until the VM is stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pvekit.inventory import Inventory

# The resource list lags by a status broadcast (10 s), and so does a VM's uptime in it.
_LAG_S = 20.0


@dataclass(frozen=True, slots=True)
class _Rest:
    since: float
    until_restart: bool


class SlotQuarantine:
    """Kept in memory: a program that starts anew learns of unfinished removals from the hosts' task lists."""

    def __init__(self, vmid: int, inventory: Inventory, monotonic: Callable[[], float]) -> None:
        self._vmid = vmid
        self._inventory = inventory
        self._monotonic = monotonic
        self._resting: dict[str, _Rest] = {}

    def add(self, key: str, *, until_restart: bool = False, since: float | None = None) -> None:
        """Let a slot rest, from now or since a moment, until the VM was restarted or, without `until_restart`, until
        `guest_answered`.
        """
        before = self._resting.get(key)
        begun = self._monotonic() if since is None else since
        if before is not None:
            begun, until_restart = max(begun, before.since), until_restart or before.until_restart
        self._resting[key] = _Rest(begun, until_restart)

    def guest_answered(self, since: float) -> None:
        """The guest let go of a controller that it was asked for after `since`, so it has finished older removals."""
        self._resting = {key: rest for key, rest in self._resting.items() if rest.until_restart or rest.since >= since}

    def keys(self) -> frozenset[str]:
        """Slots that rest now."""
        self._resting = {key: rest for key, rest in self._resting.items() if not self._restarted_since(rest.since)}
        return frozenset(self._resting)

    def _restarted_since(self, moment: float) -> bool:
        vm = self._inventory.vm(self._vmid)
        if vm is None:
            return False
        read_at = self._monotonic() - self._inventory.age_s()
        if vm.status == "stopped":
            return read_at >= moment + _LAG_S
        return vm.status == "running" and bool(vm.uptime_s) and read_at - (vm.uptime_s or 0) >= moment
