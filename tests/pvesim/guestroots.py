"""A guest's view of its disks as files: `<run>/vm-<vmid>/dev` and `<run>/vm-<vmid>/sys`, laid out as Linux does.

Must not create what stands behind a disk; the block back ends hand over the node to show. As in a guest with
virtio-scsi: SCSI address channel 0, id 0, lun = slot number, `wwid` only for a disk that has a WWN.
"""

import shutil
import string
from dataclasses import dataclass
from pathlib import Path

SECTOR_BYTES = 512
_SCSI_HOST = 2


@dataclass(frozen=True)
class GuestDisk:
    """One disk to show. `slot` is a configuration key (scsi3), `numbers` the block device's "major:minor"."""

    slot: str
    wwn: str | None
    serial: str | None
    size_bytes: int
    numbers: str
    read_only: bool = False


class GuestRoots:
    """All guests below one directory."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        # (vmid, slot) -> kernel name
        self._names: dict[tuple[int, str], str] = {}

    def dev(self, vmid: int) -> Path:
        """The guest's /dev."""
        return self._run_dir / f"vm-{vmid}" / "dev"

    def sys(self, vmid: int) -> Path:
        """The guest's /sys."""
        return self._run_dir / f"vm-{vmid}" / "sys"

    def take_name(self, vmid: int, slot: str) -> str:
        """The lowest free kernel name; sda is the boot disk's."""
        taken = {name for (owner, _), name in self._names.items() if owner == vmid}
        name = next(f"sd{c}" for c in _letters() if f"sd{c}" not in taken)
        self._names[vmid, slot] = name
        self.dev(vmid).mkdir(parents=True, exist_ok=True)
        return name

    def show(self, vmid: int, disk: GuestDisk) -> None:
        """Make the disk appear: links first, its sysfs entry last and in one step. The node is there already."""
        name = self._names[vmid, disk.slot]
        if disk.wwn:
            link = self.dev(vmid) / "disk" / "by-id" / f"wwn-{disk.wwn.lower()}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(f"../../{name}")
        block = self.sys(vmid) / "block"
        staging = block / f".tmp-{name}"
        device = staging / "device"
        device.mkdir(parents=True)
        (staging / "dev").write_text(f"{disk.numbers}\n", encoding="ascii")
        (staging / "size").write_text(f"{disk.size_bytes // SECTOR_BYTES}\n", encoding="ascii")
        (staging / "ro").write_text(f"{int(disk.read_only)}\n", encoding="ascii")
        (device / "vendor").write_text("QEMU    \n", encoding="ascii")
        (device / "model").write_text("QEMU HARDDISK   \n", encoding="ascii")
        (device / "state").write_text("running\n", encoding="ascii")
        (device / "rescan").write_text("", encoding="ascii")
        if disk.wwn:
            (device / "wwid").write_text(f"naa.{disk.wwn.lower().removeprefix('0x')}\n", encoding="ascii")
        if disk.serial:
            (device / "serial").write_text(f"{disk.serial}\n", encoding="ascii")
        staging.rename(block / name)
        address = self._scsi_address(vmid, disk.slot)
        address.parent.mkdir(parents=True, exist_ok=True)
        address.symlink_to(f"../../../block/{name}/device")

    def set_size(self, vmid: int, slot: str, size_bytes: int) -> None:
        """The disk has grown."""
        name = self._names[vmid, slot]
        size = self.sys(vmid) / "block" / name / "size"
        size.write_text(f"{size_bytes // SECTOR_BYTES}\n", encoding="ascii")

    def hide(self, vmid: int, slot: str, wwn: str | None) -> Path | None:
        """Make the disk vanish, sysfs first; the path of the node, for the caller to remove. None if not shown."""
        name = self._names.pop((vmid, slot), None)
        if name is None:
            return None
        self._scsi_address(vmid, slot).unlink(missing_ok=True)
        block = self.sys(vmid) / "block"
        leaving = block / f".gone-{name}"
        (block / name).rename(leaving)
        shutil.rmtree(leaving)
        if wwn:
            link = self.dev(vmid) / "disk" / "by-id" / f"wwn-{wwn.lower()}"
            # Another disk with the same WWN may own the link by now.
            if link.is_symlink() and link.readlink().name == name:
                link.unlink()
        return self.dev(vmid) / name

    def _scsi_address(self, vmid: int, slot: str) -> Path:
        lun = slot.lstrip(string.ascii_lowercase)
        return self.sys(vmid) / "bus" / "scsi" / "devices" / f"{_SCSI_HOST}:0:0:{lun}"


def _letters() -> list[str]:
    single = string.ascii_lowercase[1:]
    return [*single, *(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)]
