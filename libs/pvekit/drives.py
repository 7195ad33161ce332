"""Drive strings of a VM config (`local:9999/vm-9999-pvc-x.raw,size=1G,wwn=0x5…`) and the choice of a slot. Pure.

A drive is compared by its parsed volume id, never by a substring: `vm-9999-pvc-1` is not `vm-9999-pvc-10`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

DRIVE_KEY = re.compile(r"(?P<bus>scsi|virtio|sata|ide|efidisk|tpmstate)(?P<index>0|[1-9][0-9]*)")
UNUSED_KEY = re.compile(r"unused(?:0|[1-9][0-9]*)")
MAX_SCSI_SLOT = 30
"""scsi0..scsi30 exist; scsi0 is the guest's own boot disk by convention and never used for a volume."""


@dataclass(frozen=True)
class Drive:
    """One drive string. `volid` is `storage:volume`, or `none`/`cdrom`/a path for what is no volume.

    `options` keeps the order it was read in; `format()` sorts them, as Proxmox VE does when it stores them.
    """

    volid: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def __hash__(self) -> int:
        return hash(self.format())

    @classmethod
    def parse(cls, text: str) -> "Drive":
        """The drive of a config value. A `file=` prefix is accepted; an option without `=` gets the value "".

        ValueError when there is no volume at all.
        """
        volid, options = "", {}
        for position, part in enumerate(text.split(",")):
            name, equals, value = part.partition("=")
            if position == 0 and not equals:
                volid = name.strip()
            elif name == "file" or name == "volume":
                volid = value.strip()
            elif name:
                options[name] = value
        if not volid:
            raise ValueError(f"drive string without a volume: {text!r}")
        return cls(volid, options)

    def format(self) -> str:
        """The drive string as it is sent: volume first, options sorted."""
        return ",".join([self.volid, *(f"{key}={value}" for key, value in sorted(self.options.items()))])

    @property
    def storage(self) -> str:
        """The storage of the volume; "" for `none`, `cdrom` and paths."""
        storage, colon, _ = self.volid.partition(":")
        return storage if colon and "/" not in storage else ""

    @property
    def is_empty(self) -> bool:
        """Whether it is a CD-ROM drive without a volume in it. A CD-ROM with one refers to it as any drive does."""
        return self.volid in {"none", "cdrom"}

    @property
    def size_bytes(self) -> int | None:
        """The size the config remembers; None when it has none. Stale after a resize without quorum (recorded, 9.2)."""
        size = self.options.get("size")
        try:
            return parse_size(size) if size else None
        except ValueError:
            return None


_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)")
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes of a drive's `size=` ("1G", "52429K", "512"). ValueError otherwise."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return (
        int(float(match["number"]) * _UNIT[match["unit"]])
        if "." in text
        else int(match["number"]) * _UNIT[match["unit"]]
    )


def is_drive_key(key: str) -> bool:
    """Whether a config key holds a drive that a guest may see (scsi, virtio, sata, ide, efidisk, tpmstate)."""
    return DRIVE_KEY.fullmatch(key) is not None


def is_unused_key(key: str) -> bool:
    """Whether a config key is an `unusedN` entry: a reference that keeps a volume, but shows it to no guest."""
    return UNUSED_KEY.fullmatch(key) is not None


def scsi_slot(key: str) -> int | None:
    """7 of "scsi7"; None for any other key (scsihw included)."""
    match = DRIVE_KEY.fullmatch(key)
    return int(match["index"]) if match is not None and match["bus"] == "scsi" else None


def free_scsi_slot(taken: Collection[str]) -> int | None:
    """The lowest free slot of 1..30, or None. `taken` are config keys: current, pending, deleted and quarantined ones.

    A slot with a pending delete is not free: a drive set there becomes a pending replacement (recorded, 9.2).
    """
    return next((slot for slot in range(1, MAX_SCSI_SLOT + 1) if f"scsi{slot}" not in taken), None)
