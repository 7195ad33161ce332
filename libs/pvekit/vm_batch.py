"""What a VM's queue of config changes is made of: wishes on their way, and batches of them. No behaviour of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from appkit.clock import Clock
from appkit.errors import DriverError
from pvekit.drive_index import DriveIndex
from pvekit.inventory import Inventory
from pvekit.locator import Locator
from pvekit.tasks import Tasks
from pvekit.vm_config import VmConfig
from pvekit.vm_config_plan import Wish
from pvekit.vms import Vms


@dataclass(frozen=True, slots=True)
class Tools:
    """What a VM's queue works with, shared by all of a region."""

    region: str
    vms: Vms
    tasks: Tasks
    locator: Locator
    inventory: Inventory
    drives: DriveIndex
    clock: Clock
    catch_up: Callable[[str], Awaitable[None]]
    """Called with the VM's host before a batch: what was to be learnt there and could not be yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The reading that showed a wish to be true, the keys of its volume there, and whether anything was written."""

    node: str
    config: VmConfig
    keys: tuple[str, ...]
    written: bool


@dataclass(eq=False)
class Member:
    """A wish on its way. `joined` is the number of the last reading that had begun when it was last asked for."""

    wish: Wish
    joined: int
    waiters: list[asyncio.Future[Seen]] = field(default_factory=list)
    written: bool = False
    slots_spoilt: int = 0
    unplugs_failed: int = 0
    rounds: int = 0
    may_plug: bool = True
    """Whether a waiting entry may still be plugged, in order to be taken away."""

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits any more."""
        return all(waiter.cancelled() for waiter in self.waiters)

    def succeed(self, seen: Seen) -> None:
        """Answer everybody who still waits."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(seen)

    def fail(self, error: DriverError) -> None:
        """Raise in everybody who still waits."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)


@dataclass(eq=False)
class Batch:
    """What is done together. `groups` are written one after the other; `failed` is told at the end, after cleaning
    up.
    """

    delays: Iterator[float]
    node: str = ""
    config: VmConfig = field(default_factory=lambda: VmConfig.parse([]))
    reading: int = 0
    restarts: int = 0
    groups: list[list[Member]] = field(default_factory=list)
    failed: list[tuple[Member, DriverError]] = field(default_factory=list)

    def give_up(self, error: DriverError) -> None:
        """Fail whatever is left."""
        self.failed += [(member, error) for group in self.groups for member in group]
        self.groups.clear()
