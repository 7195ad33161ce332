"""Drive strings of a VM configuration as qemu-server reads and writes them. Pure.

Must not look a volume up; `vmconfig.py` does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.pvesim import propstring

_DRIVE_KEY = re.compile(r"(?:scsi|virtio|sata|ide)\d+|efidisk0|tpmstate0")
_NEW_DISK = re.compile(r"(?:([^/:\s]+):)?(\d+(?:\.\d+)?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# The only keys that a drive string's parser must know; the schema checks have passed before.
_SCHEMA: Mapping[str, Mapping[str, object]] = {"file": {"default_key": 1}, "volume": {"alias": "file"}}


@dataclass(frozen=True)
class Drive:
    """`file` is the volume id (or none, cdrom, a path, `storage:1` for a new disk), `options` the rest."""

    file: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cdrom(self) -> bool:
        """media=cdrom (the cloud-init drive is one too)."""
        return self.options.get("media") == "cdrom" or self.file in ("none", "cdrom")

    @property
    def is_cloudinit(self) -> bool:
        """A cloud-init drive, or the wish for one."""
        return self.is_cdrom_media and re.search(r"[:/]vm-\d+-cloudinit(\.\w+)?$", self.file) is not None

    @property
    def is_cdrom_media(self) -> bool:
        """Only media=cdrom counts."""
        return self.options.get("media") == "cdrom"

    @property
    def size_bytes(self) -> int:
        """The size= option; 0 without it."""
        return parse_size(self.options.get("size", "0"))

    def with_options(self, **changes: str | None) -> "Drive":
        """A copy with options set, or dropped (None)."""
        merged: dict[str, str] = dict(self.options)
        for key, value in changes.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return Drive(self.file, merged)

    @property
    def new_disk(self) -> tuple[str, float] | None:
        """(storage, GiB) of the wish for a new disk."""
        match = _NEW_DISK.fullmatch(self.file)
        return (match[1] or "", float(match[2])) if match else None


def is_drive_key(key: str) -> bool:
    """Whether a configuration key holds a drive (unusedN is none)."""
    return _DRIVE_KEY.fullmatch(key) is not None


def parse_drive(text: str) -> Drive:
    """Inverse of `format_drive`; the schema has checked the text before."""
    values = propstring.parse(text, _SCHEMA)
    return Drive(values.pop("file", ""), values)


def format_drive(drive: Drive) -> str:
    """File first, options sorted."""
    return propstring.format_value({"file": drive.file, **drive.options}, "file")


def drives_of(conf: Mapping[str, str]) -> Iterator[tuple[str, Drive]]:
    """All drives of a configuration."""
    return ((key, parse_drive(value)) for key, value in conf.items() if is_drive_key(key))


def parse_size(text: str) -> int:
    """`1G`, `512M`, `1.5G`, bytes without a unit."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return 0
    return int(float(match[1]) * _UNITS[match[2] or ""])


def format_size(size_bytes: int) -> str:
    """The largest unit that divides it; plain bytes otherwise."""
    for unit in ("T", "G", "M", "K"):
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)


def contradicts_itself(drive: Drive) -> bool:
    """A total limit and one by direction exclude each other."""
    names = drive.options.keys()
    return any(unit in names and {f"{unit}_rd", f"{unit}_wr"} & names for unit in ("iops", "mbps", "bps"))
