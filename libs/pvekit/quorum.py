"""Whether the answering host belongs to the majority of its cluster; otherwise its configuration may be an old one.

Only tells what was seen and how; what follows from it is the caller's to decide.
"""

from dataclasses import dataclass
from math import inf

from appkit.clock import Clock
from pvekit.cluster import Cluster
from pvekit.errors import PveDenied

ASK_AGAIN_S = 300.0
"""A token that may not ask for the cluster's status is not tried again before."""


@dataclass(frozen=True, slots=True)
class QuorumView:
    """`basis` says what `quorate` rests on, in words that go into a proof or a refusal."""

    quorate: bool
    basis: str


class Quorum:
    """One region's quorum."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._denied_until = -inf

    async def look(self) -> QuorumView:
        """1 request with Sys.Audit on /: the cluster's own word. Else 1 too (2 every five minutes): hosts are counted.

        The count lags by some 8 s, and is too strict for a cluster whose votes are not its hosts (a QDevice).
        """
        if self._clock.monotonic() >= self._denied_until:
            try:
                status = await self._cluster.status()
            except PveDenied as error:
                if error.status == 401:
                    raise
                self._denied_until = self._clock.monotonic() + ASK_AGAIN_S
            else:
                if status.name is None:
                    return QuorumView(quorate=True, basis=f"host {status.nodes[0].name} is a cluster of its own")
                word = "is" if status.quorate else "is not"
                return QuorumView(status.quorate, f"cluster {status.name} says that it {word} quorate")
        hosts = await self._cluster.hosts()
        online = sum(host.online for host in hosts)
        counted = f"{online} of {len(hosts)} hosts online"
        return QuorumView(online * 2 > len(hosts), f"{counted}, counted since the token lacks Sys.Audit on /")
