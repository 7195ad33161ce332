"""One VM's config as GET /pending lists it: what is live, what waits, what waits to be deleted. Pure.

GET /config shows waiting changes as if they were done, and hides entries that wait to be deleted; it must not be used
to decide whether a guest has a disk (recorded, 9.2).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from pvekit.drives import Drive, is_drive_key, is_unused_key, scsi_slot
from pvekit.scalars import as_int, as_str


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A key that waits for a value: `value` is the new one, `current` what the guest has now (None: nothing)."""

    key: str
    value: str
    current: str | None


@dataclass(frozen=True)
class VmConfig:
    """`current` is what the running guest has, `pending` what waits to be set, `deletes` what waits to be removed.

    `digest` covers the whole file, waiting changes included. A key in `deletes` is still in `current`, and still with
    the guest as far as Proxmox VE knows.
    """

    digest: str
    current: Mapping[str, str]
    pending: Mapping[str, PendingChange]
    deletes: frozenset[str]

    @classmethod
    def parse(cls, entries: Sequence[Mapping[str, Any]]) -> "VmConfig":
        """The answer of GET /nodes/{n}/qemu/{v}/pending; entries without a key are skipped."""
        digest, current, pending, deletes = "", {}, {}, set()
        for entry in entries:
            key, value, waiting = as_str(entry.get("key")), as_str(entry.get("value")), as_str(entry.get("pending"))
            if key is None:
                continue
            if key == "digest":
                digest = value or ""
                continue
            if value is not None:
                current[key] = value
            if waiting is not None:
                pending[key] = PendingChange(key, waiting, value)
            if as_int(entry.get("delete"), 0):
                deletes.add(key)
        return cls(digest, MappingProxyType(current), MappingProxyType(pending), frozenset(deletes))

    def drives(self) -> dict[str, Drive]:
        """Volumes that the guest has now, by key; entries waiting to be deleted included, `unusedN` and empty CD-ROM
        drives not.
        """
        return {key: drive for key, drive in _drives(self.current) if is_drive_key(key) and not drive.is_empty}

    def pending_drives(self) -> dict[str, Drive]:
        """Volumes that wait to be plugged or to replace another, by key."""
        waiting = {key: change.value for key, change in self.pending.items()}
        return {key: drive for key, drive in _drives(waiting) if is_drive_key(key) and not drive.is_empty}

    def unused(self) -> dict[str, Drive]:
        """`unusedN` entries, by key."""
        return {key: drive for key, drive in _drives(self.current) if is_unused_key(key)}

    def taken_keys(self) -> frozenset[str]:
        """Every key that holds or waits for something: none of these is a free slot."""
        return frozenset(self.current) | frozenset(self.pending) | self.deletes

    def scsi_slots(self) -> dict[int, Drive]:
        """Live drives on the scsi bus by slot."""
        return {slot: drive for key, drive in self.drives().items() if (slot := scsi_slot(key)) is not None}

    @property
    def boot_keys(self) -> frozenset[str]:
        """Drives the VM boots from, as far as its settings say (`boot: order=scsi0;net0`, the older `bootdisk`)."""
        _, _, order = self.current.get("boot", "").partition("order=")
        return frozenset(order.partition(",")[0].split(";")) | {self.current.get("bootdisk", "")}

    @property
    def name(self) -> str:
        """The VM's name, "" when it has none."""
        return self.current.get("name", "")

    @property
    def smbios_uuid(self) -> str | None:
        """The uuid of smbios1 as it is written; None when the VM has none."""
        for item in self.current.get("smbios1", "").split(","):
            name, equals, value = item.partition("=")
            if equals and name == "uuid":
                return value
        return None

    def may_be(self, system_uuid: str) -> bool:
        """Whether a guest that reports this system UUID can be this VM; yes when either says nothing readable.

        In either byte order: firmware tables before SMBIOS 2.6 are read in both.
        """
        try:
            own, other = UUID(self.smbios_uuid or ""), UUID(system_uuid)
        except ValueError:
            return True
        return other.bytes in (own.bytes, own.bytes_le)

    @property
    def scsi_controller(self) -> str:
        """The scsihw setting; "lsi" is Proxmox VE's default when it is not set."""
        return self.current.get("scsihw", "lsi")

    @property
    def hotplugs_disks(self) -> bool:
        """Whether disks are plugged into a running guest (setting `hotplug`; default "network,disk,usb", "1" means
        that).
        """
        setting = self.current.get("hotplug", "1")
        return setting == "1" or "disk" in setting.replace(";", ",").split(",")


def _drives(values: Mapping[str, str]) -> Iterator[tuple[str, Drive]]:
    for key, value in values.items():
        if is_drive_key(key) or is_unused_key(key):
            try:
                yield key, Drive.parse(value)
            except ValueError:
                continue
