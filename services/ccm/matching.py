"""Which VMs may be a Node's, by name, in the order of how good the name's evidence is. Pure.

A name never decides: every candidate's SMBIOS UUID is compared afterwards. The order only keeps the number of
configurations that must be read near one a Node, also where names are prefixes of one another (`w-1`, `w-10` …
`w-199`).
"""

from collections.abc import Iterable, Iterator

from pvekit.locator import VmRef


def candidate_groups(node_name: str, machines: Iterable[VmRef]) -> Iterator[list[VmRef]]:
    """Non-empty groups of machines, best evidence first; no machine appears twice. Names compare without case.

    1. the Node's name itself; 2. one is the other's full domain name; 3. the VM's name begins with the Node's.
    """
    wanted = node_name.lower()
    groups: tuple[list[VmRef], ...] = ([], [], [])
    for machine in machines:
        name = machine.name.lower()
        if not name:
            continue
        if name == wanted:
            groups[0].append(machine)
        elif name.startswith(wanted + ".") or wanted.startswith(name + "."):
            groups[1].append(machine)
        elif name.startswith(wanted):
            groups[2].append(machine)
    return (group for group in groups if group)
