"""Which VMs may be a Node's, by name, in the order of how good the name's evidence is. Pure.

A name never decides: every candidate's SMBIOS UUID is compared afterwards. The order only keeps the number of
configurations that must be read near one a Node, also where names are prefixes of one another (`w-1`, `w-10` …
`w-199`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pvekit.models import VmEntry, VmRef


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM as one region's resource list shows it."""

    region: str
    entry: VmEntry

    @property
    def ref(self) -> VmRef:
        """Where to ask for it."""
        return VmRef(self.region, self.entry.node, self.entry.vmid, self.entry.name)

    @property
    def running(self) -> bool:
        """Whether the list calls it running; old by some seconds."""
        return self.entry.status == "running"

    def __str__(self) -> str:
        return f"VM {self.entry.vmid} ({self.entry.name or 'no name yet'}) on {self.entry.node} in region {self.region}"


def candidate_groups(node_name: str, machines: Iterable[Machine]) -> Iterator[list[Machine]]:
    """Non-empty groups of machines, best evidence first; none appears twice. Names compare without case.

    1. the Node's name itself; 2. one is the other's full domain name; 3. the VM's name begins with the Node's.
    """
    wanted = node_name.lower()
    groups: tuple[list[Machine], ...] = ([], [], [])
    for machine in machines:
        name = (machine.entry.name or "").lower()
        if not name:
            continue
        if name == wanted:
            groups[0].append(machine)
        elif name.startswith(wanted + ".") or wanted.startswith(name + "."):
            groups[1].append(machine)
        elif name.startswith(wanted):
            groups[2].append(machine)
    return (group for group in groups if group)
