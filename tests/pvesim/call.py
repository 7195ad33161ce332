"""What a handler gets: who asks, for what, in which world. Must not contain a rule of Proxmox VE."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.pvesim.access import Identity
from tests.pvesim.faults import Action
from tests.pvesim.schema import Endpoint
from tests.pvesim.tasks import Body, Task

if TYPE_CHECKING:
    from tests.pvesim.world import World


@dataclass
class Call:
    """A checked request. `params` holds path, query and body parameters as strings."""

    world: "World"
    who: Identity
    endpoint: Endpoint
    params: dict[str, str]
    node: str
    task_fault: Action | None = None

    @property
    def vmid(self) -> int:
        """The VM id in the path."""
        return int(self.params["vmid"])

    def flag(self, name: str) -> bool:
        """A boolean parameter."""
        return self.params.get(name) == "1"

    def start_task(self, kind: str, target: str, body: Body, *, node: str = "") -> Task:
        """Fork a worker on this call's node."""
        return self.world.tasks.start(node or self.node, kind, target, self.who, body, fault=self.task_fault)

    def require(self, path: str, *privileges: str) -> None:
        """403 unless all of them are there."""
        if not self.who.is_root:
            self.world.permissions.require(self.who, path, *privileges)

    def require_any(self, path: str, *privileges: str) -> None:
        """403 unless one of them is there."""
        if not self.who.is_root:
            self.world.permissions.require_any(self.who, path, *privileges)

    def may(self, path: str, privilege: str) -> bool:
        """Whether the privilege is there."""
        return self.who.is_root or self.world.access.has(self.who, path, privilege)

    def may_any(self, path: str, *privileges: str) -> bool:
        """Whether one of them is there."""
        return self.who.is_root or self.world.access.has_any(self.who, path, privileges)


def as_root(world: "World", node: str, **params: str) -> Call:
    """What a host does by itself, with all rights and no request behind it."""
    nothing = Endpoint("", "", {}, {}, True, True)
    return Call(world, Identity("root@pam"), nothing, dict(params), node)


Handler = Callable[[Call], Awaitable[Any]]
Routes = Mapping[tuple[str, str], Handler]
