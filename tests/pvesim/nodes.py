"""The hosts, and what proxying a request to one of them meets. Must not know what runs on a host."""

from collections.abc import Iterator

from tests.pvesim.clock import SimClock
from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Darkness, Node

# Recorded: a host cut off answers nothing for 30 s at first, later its address is known to be unreachable.
CUT_TIMEOUT_S = 30.0
NO_ROUTE_S = 3.0
OFFLINE_AFTER_S = 8.0
UNKNOWN_AFTER_S = 296.0


class Nodes:
    """All hosts by name, in the order of the world file."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._by_name: dict[str, Node] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_name.values())

    @property
    def first(self) -> Node:
        """The host that clients talk to unless they choose another."""
        return next(iter(self._by_name.values()))

    def add(self, node: Node) -> None:
        """One more host."""
        self._by_name[node.name] = node

    def find(self, name: str) -> Node | None:
        """By name."""
        return self._by_name.get(name)

    def remove(self, name: str) -> None:
        """A host leaves the cluster for good."""
        del self._by_name[name]

    def darken(self, name: str, how: Darkness) -> None:
        """Take a host off the air ("" brings it back). Broadcasts must be told first; `World` users call
        `broadcasts.darken`."""
        node = self._by_name[name]
        node.dark, node.dark_since = how, self._clock.monotonic()

    def dark_for(self, node: Node) -> float:
        """Seconds since it was cut off; 0 for a host whose heartbeat others still see."""
        return self._clock.monotonic() - node.dark_since if node.dark == "cut" else 0.0

    def is_online(self, node: Node) -> bool:
        """As the other hosts see it: about 8 s late."""
        return self.dark_for(node) < OFFLINE_AFTER_S if node.dark == "cut" else True

    async def proxy_to(self, name: str, *, protected: bool, clustered: bool) -> None:
        """Raise what the proxying host meets: 500 for a name it cannot resolve, 595 for a host it cannot reach."""
        node = self._by_name.get(name)
        if node is None:
            # The resolver's own words; a cluster asks a name server that does not answer.
            reason = "Temporary failure in name resolution" if clustered else "Name or service not known"
            raise die(f"hostname lookup '{name}' failed - failed to get address info for: {name}: {reason}")
        if node.dark == "no-pveproxy" or (node.dark == "no-pvedaemon" and protected):
            raise ApiError(595, "Connection refused", bare=True)
        if node.dark == "cut":
            if self.dark_for(node) < CUT_TIMEOUT_S:
                await self._clock.sleep(CUT_TIMEOUT_S)
                raise ApiError(595, "Connection timed out", bare=True)
            await self._clock.sleep(NO_ROUTE_S)
            raise ApiError(595, "No route to host", bare=True)
