"""Storage types by name: the table that everything else asks. A further type is a row.

Which of them were recorded is in the plugins themselves (`unrecorded`): dir wholly, lvm and lvmthin with a stand-in for
lvm2's tools; the others follow the plugins' sources.
"""

import re
from collections.abc import Iterable

from tests.pvesim.plugindir import (
    BtrfsPlugin,
    CephFsPlugin,
    DirPlugin,
    MountedPlugin,
    ParsedName,
    round_up,
)
from tests.pvesim.pluginiscsi import IscsiPlugin
from tests.pvesim.pluginlvm import LvmPlugin, LvmThinPlugin
from tests.pvesim.pluginrbd import RbdPlugin
from tests.pvesim.pluginzfs import ZfsOverIscsiPlugin, ZfsPoolPlugin

__all__ = [
    "ALWAYS_SHARED",
    "PLUGINS",
    "ParsedName",
    "Plugin",
    "free_number",
    "round_up",
    "supported_content",
    "unrecorded_types",
]

Plugin = DirPlugin
PLUGINS: dict[str, Plugin] = {
    "dir": DirPlugin(),
    "nfs": MountedPlugin(),
    "cifs": MountedPlugin(),
    "cephfs": CephFsPlugin(),
    "btrfs": BtrfsPlugin(),
    "lvm": LvmPlugin(),
    "lvmthin": LvmThinPlugin(),
    "zfspool": ZfsPoolPlugin(),
    "zfs": ZfsOverIscsiPlugin(),
    "rbd": RbdPlugin(),
    "iscsi": IscsiPlugin(),
}
ALWAYS_SHARED = frozenset(kind for kind, plugin in PLUGINS.items() if plugin.shared)


def supported_content(kind: str, wished: Iterable[str]) -> list[str]:
    """Content types that a storage type can hold; Proxmox VE warns of the rest and drops it."""
    return [content for content in wished if content in PLUGINS[kind].contents]


def unrecorded_types() -> dict[str, str]:
    """{storage type: what of it is simulated without a recording}; "all" is the whole type."""
    return {kind: plugin.unrecorded for kind, plugin in PLUGINS.items() if plugin.unrecorded}


def free_number(vmid: int, names: Iterable[str]) -> int:
    """The lowest N for which no `(vm|base)-<vmid>-disk-N` exists."""
    taken: set[int] = set()
    for name in names:
        match = re.search(rf"(?:vm|base|subvol)-{vmid}-disk-(\d+)", name.rsplit("/", 1)[-1])
        if match:
            taken.add(int(match[1]))
    number = 0
    while number in taken:
        number += 1
    return number
