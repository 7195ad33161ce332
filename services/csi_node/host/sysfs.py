"""Disks as the kernel shows them in /sys, read under a root that can be set.

`block/<name>/device/wwid` is the truth about which disk a kernel name stands for. A link in /dev/disk/by-id is made by
udev later, and lies for a while when a name is reused: seen with a detach and attach in quick succession, the old
disk's link pointed at the new disk for half a second (recorded with virtio-scsi). So no link is ever followed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from csi_node.host.kernel import DeviceNumber, Kernel

SECTOR_BYTES = 512
"""The unit of `size` in sysfs, whatever the disk's own sector size."""

_NAA = "naa."


@dataclass(frozen=True)
class ScsiDisk:
    """A whole disk with a World Wide Name. `wwn` is `0x` and the hexadecimal digits, lower case."""

    name: str
    wwn: str
    number: DeviceNumber
    size_bytes: int
    read_only: bool
    state: str

    def __str__(self) -> str:
        return f"{self.name} ({self.number}, WWN {self.wwn}, {self.size_bytes} bytes)"


class Sysfs:
    """The sysfs tree of this machine."""

    def __init__(self, root: Path, kernel: Kernel) -> None:
        self._root = root
        self._kernel = kernel

    def disks(self) -> list[ScsiDisk]:
        """Every disk that has a World Wide Name now, by kernel name."""
        return [disk for name in self._names() if (disk := self.disk(name)) is not None]

    def disk(self, name: str) -> ScsiDisk | None:
        """The disk of this kernel name; None when there is none or it has no World Wide Name."""
        where = self._root / "block" / name
        wwid = _read(where / "device" / "wwid").lower()
        number = _number(_read(where / "dev"))
        sectors = _read(where / "size")
        if not wwid.startswith(_NAA) or number is None or not sectors.isdecimal():
            return None
        return ScsiDisk(
            name=name,
            wwn=f"0x{wwid.removeprefix(_NAA)}",
            number=number,
            size_bytes=int(sectors) * SECTOR_BYTES,
            read_only=_read(where / "ro") == "1",
            state=_read(where / "device" / "state"),
        )

    def disk_of(self, number: DeviceNumber) -> ScsiDisk | None:
        """The disk with this device number."""
        return next((disk for disk in self.disks() if disk.number == number), None)

    def exists(self, number: DeviceNumber) -> bool:
        """Whether the machine has a block device, or a partition, with this number."""
        attributes = (path for pattern in ("*/dev", "*/*/dev") for path in self._root.joinpath("block").glob(pattern))
        return any(_number(_read(path)) == number for path in attributes)

    async def rescan(self, disk: ScsiDisk) -> None:
        """Ask the disk for its size again. A disk without that attribute tells of a new size by itself."""
        attribute = self._root / "block" / disk.name / "device" / "rescan"
        if attribute.exists():
            await self._kernel.write_attribute(attribute, "1\n")

    async def set_running(self, disk: ScsiDisk) -> None:
        """Bring a disk back that was set offline: the Go node service does that to each disk it unstages."""
        await self._kernel.write_attribute(self._root / "block" / disk.name / "device" / "state", "running\n")

    async def scan_hosts(self) -> None:
        """Make every SCSI host look for disks whose arrival the kernel may have missed."""
        for attribute in sorted(self._root.glob("class/scsi_host/host*/scan")):
            await self._kernel.write_attribute(attribute, "- - -\n")

    def _names(self) -> Iterator[str]:
        try:
            names = sorted(entry.name for entry in (self._root / "block").iterdir())
        except OSError:
            return
        yield from (name for name in names if not name.startswith("."))


def _read(attribute: Path) -> str:
    """The text of an attribute; empty when the device has just gone, or has no such attribute."""
    try:
        return attribute.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> DeviceNumber | None:
    major, colon, minor = text.partition(":")
    if not colon or not major.isdecimal() or not minor.isdecimal():
        return None
    return DeviceNumber(int(major), int(minor))
