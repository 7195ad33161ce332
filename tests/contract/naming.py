"""How recorded ids are called in a replay: as recorded, or renamed throughout.

A replay with other VM ids, storage and host names must come to the same figure; a simulator that looked answers up
could not. Must not know what a request means: renaming is a function of text alone, applied to requests, expected
answers and the starting world alike.
"""

import re
from dataclasses import dataclass, field
from typing import Any

# Words that are a storage's name in the recordings and something else before these words ("target is local node.").
_NOT_A_NAME = r'(?![\w-]|=| (?:node|disk|volume|"write"|resources))'
_ID_EDGE = r"(?:(?<![0-9A-Za-z.])|(?<=%3A)|(?<=%2F))"
_UPID = re.compile(r"UPID(?::|%3A)[^\s\"'/]+")
_VMID_KEYS = frozenset(["vmid", "newid", "target-vmid"])


@dataclass(frozen=True)
class Naming:
    """Recorded name -> name in this replay; what is not in the tables keeps its name."""

    vmids: dict[int, int] = field(default_factory=dict)
    storages: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)

    def vmid(self, recorded: int) -> int:
        """A VM's id."""
        return self.vmids.get(recorded, recorded)

    def storage(self, recorded: str) -> str:
        """A storage's id."""
        return self.storages.get(recorded, recorded)

    def node(self, recorded: str) -> str:
        """A host's name."""
        return self.nodes.get(recorded, recorded)

    def text(self, text: str) -> str:
        """Every id in a text, except inside UPIDs (the replay carries those over itself)."""
        if not (self.vmids or self.storages or self.nodes):
            return text
        result, position = [], 0
        for upid in _UPID.finditer(text):
            result += [self._plain(text[position : upid.start()]), self._upid(upid[0])]
            position = upid.end()
        return "".join([*result, self._plain(text[position:])])

    def value(self, value: Any, key: str = "") -> Any:
        """Every id in a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int) and key in _VMID_KEYS:
            return self.vmid(value)
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if isinstance(value, dict):
            return {self._key(k): self.value(item, k) for k, item in value.items()}
        return value

    def _key(self, key: str) -> str:
        return self.text(key) if key.startswith("/") else self.nodes.get(key, key)

    def _upid(self, upid: str) -> str:
        separator = "%3A" if "%3A" in upid else ":"
        parts = upid.split(separator)
        return separator.join(self._plain(part) if place in (1, 6) else part for place, part in enumerate(parts))

    def _plain(self, text: str) -> str:
        if self.vmids:
            ids = "|".join(map(str, self.vmids))
            text = re.sub(rf"{_ID_EDGE}({ids})(?![0-9A-Za-z])", lambda m: str(self.vmids[int(m[1])]), text)
        if self.storages:
            names = "|".join(self.storages)
            text = re.sub(rf"(?<![\w-])({names}){_NOT_A_NAME}", lambda m: self.storages[m[1]], text)
            text = re.sub(rf"(?<=storage-)({names})\b", lambda m: self.storages[m[1]], text)
        if self.nodes:
            text = re.sub(rf"\b({'|'.join(self.nodes)})\b", lambda m: self.nodes[m[1]], text)
        return text


AS_RECORDED = Naming()
RENAMED = Naming(
    # 100 keeps its name: it is the first id that Proxmox VE offers.
    vmids={n: n + 300 for n in (*range(101, 161), 191, 200, 201, 202, 210, 290)}
    | {n: n - 1100 for n in (*range(9001, 9031), 8888, 9998, 9999)},
    storages={
        "local": "disks",
        "shared": "filer",
        "lvmthin1": "thinpool",
        "lvm1": "thickpool",
        "isoonly": "images",
        "othernode": "elsewhere",
        "only2": "second",
    },
    nodes={"pve1": "alder", "pve2": "birch", "pve3": "cedar", "pve9": "yew"},
)
