"""Logical volumes: lvmthin and lvm. Recorded from Proxmox VE 9.2 with a stand-in for lvm2's tools.

Must not keep state (`storage.py` does).
"""

import re
from dataclasses import replace

from tests.pvesim.errors import ApiError, die
from tests.pvesim.plugindir import DirPlugin, ParsedName
from tests.pvesim.state import Storage

LVM_EXTENT_BYTES = 4 << 20


class LvmThinPlugin(DirPlugin):
    """Thin logical volumes: `vm-<vmid>-*`, raw only, 4 MiB extents."""

    contents = frozenset(["images", "rootdir"])
    unrecorded = "the texts of lvm2's own tools"
    formats = ("raw",)
    snapshot_formats: tuple[str, ...] = ("raw",)
    size_step_bytes = LVM_EXTENT_BYTES
    looks_into_images = False
    clones_snapshots = True
    module = "/usr/share/perl5/PVE/Storage/LvmThinPlugin.pm line 102"

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """See DirPlugin; the owner is in the name and checked."""
        if fmt not in (None, "raw"):
            raise die(f"unsupported format '{fmt}' at {self.module}.")
        if not filename.startswith(f"vm-{vmid}-"):
            raise die(f"illegal name '{filename}' - should be 'vm-{vmid}-*'")
        return filename, "raw"

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """Owner from the name."""
        linked = re.fullmatch(r"((?:base)-\d+-\S+)/((?:vm|base)-(\d+)-\S+)", name)
        if linked:
            return ParsedName("images", int(linked[3]), "raw", base=linked[1])
        if re.search(r"[^a-zA-Z0-9+_.\- ]", name):
            raise die(f"lvm name '{name}' contains illegal characters")
        match = re.fullmatch(r"(vm|base)-(\d+)-.+", name)
        if match is None:
            raise die(f"unable to parse lvm volume name '{name}'")
        return ParsedName("images", int(match[2]), "raw", is_base=match[1] == "base")

    def check_limits(self, storage: Storage, name: str, size_bytes: int, fmt: str) -> None:
        """None that are simulated."""

    def path(self, storage: Storage, name: str) -> str:
        """The device node on the host."""
        return f"/dev/{storage.options.get('vgname', 'pve')}/{name}"

    def disk_name(self, vmid: int, kind: str, number: int, fmt: str) -> str:
        """`vm-100-disk-0`."""
        return f"{kind}-{vmid}-disk-{number}"

    def cloudinit_name(self, vmid: int) -> tuple[str, str]:
        """`vm-100-cloudinit`."""
        return f"vm-{vmid}-cloudinit", "raw"

    def exists_error(self, storage: Storage, name: str) -> ApiError:
        """lvcreate's complaint, as the plugin wraps it."""
        group = storage.options.get("vgname", "pve")
        return die(
            f'lvcreate \'{group}/{name}\' error:   Logical Volume "{name}" already exists in volume group "{group}"'
        )

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """lvs finds nothing."""
        path = self.path(storage, name)
        return die(f"can't get size of '{path}':   Failed to find logical volume \"{path.removeprefix('/dev/')}\"")

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """Activation finds nothing."""
        return die(f"no such logical volume {storage.options.get('vgname', 'pve')}/{name}")

    def delete_missing(self, storage: Storage, name: str) -> str:
        """lvmthin succeeds without a word."""
        return ""

    def in_use_error(self, storage: Storage, name: str) -> ApiError | None:
        """lvremove refuses an open volume."""
        volume = f"{storage.options.get('vgname', 'pve')}/{name}"
        return die(f"lvremove '{volume}' error:   Logical volume {volume} in use.")

    def freed_lines(self, name: str) -> list[str]:
        """lvremove's own line."""
        return [f'  Logical volume "{name}" successfully removed.']

    def snapshot_lines(self, name: str, snapshot: str, *, created: bool) -> list[str]:
        """lvcreate's or lvremove's own line."""
        return [f'  Logical volume "snap_{name}_{snapshot}" {"created" if created else "successfully removed"}.']

    def snapshot_missing(self, storage: Storage, name: str, snapshot: str, switch: str) -> tuple[list[str], str]:
        """lvremove finds nothing."""
        volume = f"{storage.options.get('vgname', 'pve')}/snap_{name}_{snapshot}"
        return [], f"lvremove snapshot '{volume}' error:   Failed to find logical volume \"{volume}\""

    def format_line(self, storage: Storage, name: str, fmt: str, size_bytes: int) -> list[str]:
        """lvcreate's own line."""
        return [f'  Logical volume "{name}" created.']

    def list_entry(self, used_bytes: int, parent: str | None, ctime: int, content: str) -> dict[str, object]:
        """The time of creation is a text, and nothing tells what is used."""
        return {"ctime": str(ctime)}

    def shown_used(self, used_bytes: int) -> int:
        """Not told."""
        return 0

    def not_active(self, storage: Storage) -> ApiError:
        """No such volume group."""
        return die(f"no such volume group '{storage.options.get('vgname', 'pve')}'")

    def state_name(self, vmid: int, snapshot: str) -> str:
        """`vm-100-state-s1`."""
        return f"vm-{vmid}-state-{snapshot}"

    def resize_lines(self, storage: Storage, name: str, wanted_bytes: int, real_bytes: int, *, live: bool) -> list[str]:
        """lvextend's own lines."""
        lines = [f"  Logical volume {self.path(storage, name).removeprefix('/dev/')} successfully resized."]
        if real_bytes != wanted_bytes:
            lines.append(f"  Rounding up size to full physical extent {real_bytes / (1 << 30):.2f} GiB.")
        return lines

    def rename_lines(self, storage: Storage, former: str, name: str) -> list[str]:
        """lvrename's own line."""
        return [f'  Renamed "{former}" to "{name}" in volume group "{storage.options.get("vgname", "pve")}"']


CHAIN = "snapshot-as-volume-chain"


class LvmPlugin(LvmThinPlugin):
    """Thick logical volumes. The owner in the name is not checked.

    With `snapshot-as-volume-chain` (release 9, not recorded) qcow2 images in logical volumes, whose names end so, and
    snapshots of those.
    """

    unrecorded = f"the texts of lvm2's own tools; {CHAIN}"

    snapshot_formats = ()
    deleting_missing_fails = True
    clones_snapshots = False

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """See LvmThinPlugin."""
        if re.search(r"[^a-zA-Z0-9+_.\-]", filename):
            raise die(f"lvm name '{filename}' contains illegal characters")
        if not re.match(r"vm-\d+-", filename):
            raise die(f"unable to parse lvm volume name '{filename}'")
        real = "qcow2" if filename.endswith(".qcow2") else "raw"
        if fmt not in (None, real):
            hint = f"(did you mean '{filename}.{fmt}'?)"
            raise die(f"volume name '{filename}' does not match requested format '{fmt}' {hint}")
        if real not in self.formats_of(storage):
            raise die(f"unsupported format '{real}' at {self.module}.")
        return filename, real

    def formats_of(self, storage: Storage) -> tuple[str, ...]:
        """qcow2 only in a chain."""
        return ("qcow2", "raw") if _is_chained(storage) else ("raw",)

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """A name may say qcow2."""
        parsed = super().parse(storage, name)
        return replace(parsed, format="qcow2") if name.endswith(".qcow2") else parsed

    def can_snapshot(self, storage: Storage, fmt: str) -> bool:
        """A chain of qcow2 volumes is a snapshot's only form here."""
        return _is_chained(storage) and fmt == "qcow2"

    def disk_name(self, vmid: int, kind: str, number: int, fmt: str) -> str:
        """`vm-100-disk-0`, or with its format in a chain."""
        plain = super().disk_name(vmid, kind, number, fmt)
        return f"{plain}.qcow2" if fmt == "qcow2" else plain

    def is_thick(self, storage: Storage) -> bool:
        """It is."""
        return True

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """Activation finds nothing."""
        path = self.path(storage, name)
        reason = f'  Failed to find logical volume "{path.removeprefix("/dev/")}"'
        return die(f"can't activate LV '{path}': {reason}")

    def delete_missing(self, storage: Storage, name: str) -> str:
        """lvremove fails."""
        group = storage.options.get("vgname", "pve")
        return f"lvremove '{group}/{name}' error:   Failed to find logical volume \"{group}/{name}\""


def _is_chained(storage: Storage) -> bool:
    return str(storage.options.get(CHAIN, "0")) == "1"
