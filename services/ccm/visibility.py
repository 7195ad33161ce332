"""Says which VMs a token cannot see, since Proxmox VE does not: it leaves them out of its lists and answers 200.

Asked only when a Node's VM was not found, at most once a minute and region. Must not guess: when the rights cannot be
read it says nothing.
"""

from collections.abc import Mapping

from appkit.clock import Clock
from appkit.errors import DriverError
from pvekit.clusters import Region
from pvekit.purpose import purpose

AUDIT = "VM.Audit"
_KEEP_S = 60.0


def audit_limits(region: str, permissions: Mapping[str, Mapping[str, bool]]) -> str:
    """A sentence about what is missing, or "" when the token sees every VM.

    `permissions` as `pvekit.cluster.Cluster.permissions`: path → privilege → whether it holds below that path too.
    """
    if any(permissions.get(path, {}).get(AUDIT) for path in ("/", "/vms")):
        return ""
    paths = sorted(path for path, privileges in permissions.items() if AUDIT in privileges)
    where = f"only on {', '.join(paths[:5])}" if paths else "nowhere"
    return (
        f"the Proxmox VE token of region {region} has {AUDIT} {where}, and VMs without it are left out of the list: "
        f"grant {AUDIT} on /vms"
    )


class Visibility:
    """Remembers each region's answer for a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    async def limits(self, region: Region) -> str:
        """`audit_limits` of the region's own token; "" when its rights cannot be read now."""
        now_s = self._clock.monotonic()
        known = self._known.get(region.name)
        if known is None or now_s - known[0] >= _KEEP_S:
            try:
                with purpose("background"):
                    text = audit_limits(region.name, await region.cluster.permissions())
            except DriverError:
                text = ""
            known = self._known[region.name] = (now_s, text)
        return known[1]
