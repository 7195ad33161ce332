"""Recorded answers that the simulator does not repeat, each with the reason why it should not or need not.

What is not in this table is a fault of the simulator. Must not grow for convenience: a reason says either that the
recording machine was at fault (it lacked KVM, tools, real LVM), that chance decided, or that a thing is of no use to
anybody who programs against the API.
"""

from collections.abc import Mapping

_NO_MIRROR = "QEMU of the recording machine could not mirror a disk; that the task fails is replayed, its text is not"
_NO_TOOL = "the recording machine lacked the tool that Proxmox VE calls"
_STUB = "the recording machine had a stub in place of this part of Proxmox VE"
_FAKE_LVM = "the text is that of the stand-in for lvm2 on the recording machine"

# Number of the recording -> reason.
ARGUED: Mapping[int, str] = {
    **dict.fromkeys((152, 153, 154), "the recording machine's QEMU came without its list of machine versions"),
    **dict.fromkeys((555, 558), "qemu-img of the recording machine refused a disk of odd size for reasons of its own"),
    586: "the recording machine has no KVM, and the VM asked for it",
    641: "QEMU's image lock on the recording machine, seen once; live resizes elsewhere went well",
    905: "QEMU of the recording machine could not save its state",
    1060: f"{_NO_TOOL} (genisoimage)",
    1156: "the HTML formatter is for browsers and not simulated",
    1504: f"{_NO_TOOL} (wget)",
    **dict.fromkeys((1527, 1532), _FAKE_LVM),
    1993: f"{_NO_TOOL} (lvs)",
    2007: f"{_NO_TOOL} (timedatectl)",
    **dict.fromkeys((2009, 2010), _STUB),
    2044: "whether a host that is cut off is 'no route' at once or times out first depends on neighbour caches",
    **dict.fromkeys((2250, 2256, 3103, 3106), _NO_MIRROR),
}
# Proxmox VE walks a hash: whether the good disk of a refused pair stays pending is chance, there and here.
BY_CHANCE = frozenset([1913])
