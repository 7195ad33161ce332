"""Storage types: how each names volumes, which formats it takes, and how it words its refusals.

One class per family, one table by type name; a further type is a row. Must not keep state (`storage.py` does).
Texts of dir, lvm and lvmthin are from Proxmox VE 9.2, recorded; rbd's are from the plugin's source and marked so in
the README.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Storage

_EXTENSIONS = r"raw|qcow2|vmdk|subvol"
_FILE_NAME = re.compile(rf"((?:base-)?[^/\s]+\.({_EXTENSIONS}))")
LVM_EXTENT_BYTES = 4 << 20
MAX_FILE_NAME_BYTES = 255
MAX_IMAGE_BYTES = (1 << 56) - 1


@dataclass(frozen=True)
class ParsedName:
    """A volume name taken apart. `owner` None: not owned by a VM (an ISO image). `base` is the template's volume."""

    content: str
    owner: int | None
    format: str
    base: str | None = None
    is_base: bool = False


def round_up(size_bytes: int, step_bytes: int) -> int:
    """The next multiple of `step_bytes`."""
    return -(-size_bytes // step_bytes) * step_bytes


class DirPlugin:
    """Files in a directory: dir, and what is mounted into one (nfs, cifs, cephfs)."""

    formats: tuple[str, ...] = ("raw", "qcow2", "vmdk", "subvol")
    default_format = "raw"
    deleting_missing_fails = False
    # On which formats a snapshot of the volume is possible.
    snapshot_formats: tuple[str, ...] = ("qcow2",)
    size_step_bytes = 1
    # Whether naming and listing open every image with qemu-img.
    looks_into_images = True
    # Whether a linked clone can be made of a snapshot (of a base volume it always can).
    clones_snapshots = False

    def formats_of(self, storage: Storage) -> tuple[str, ...]:
        """Formats that a storage of this type takes, as it is configured."""
        return self.formats

    def base_path(self, storage: Storage) -> str:
        """The directory."""
        return str(storage.options.get("path", f"/mnt/pve/{storage.storage_id}"))

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """(volume name, format) of a new volume; the name's owner is the directory, not what the file is called."""
        if fmt == "subvol":
            raise die("storage does not support subvol quotas")
        match = _FILE_NAME.fullmatch(filename)
        if match is None:
            raise die(f"unable to parse volume filename '{filename}'")
        return f"{vmid}/{filename}", match[2]

    def check_limits(self, storage: Storage, name: str, size_bytes: int, fmt: str) -> None:
        """What the file system below cannot hold; qemu-img's words."""
        path = self.path(storage, name)
        complaint = f"unable to create image: qemu-img: {path}: "
        if len(name.rsplit("/", 1)[-1].encode()) > MAX_FILE_NAME_BYTES:
            raise die(f"{complaint}Could not create '{path}': File name too long")
        if size_bytes > MAX_IMAGE_BYTES:
            raise die(f"{complaint}The image size is too large for file format '{fmt}'")

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """Take a name apart; 500 when it is none of this plugin."""
        linked = re.fullmatch(r"(\d+)/(\S+)/(\d+)/(\S+)", name)
        if linked:
            return ParsedName("images", int(linked[3]), self._file_format(linked[4]), base=f"{linked[1]}/{linked[2]}")
        image = re.fullmatch(r"(\d+)/(\S+)", name)
        if image:
            return ParsedName(
                "images", int(image[1]), self._file_format(image[2]), is_base=image[2].startswith("base-")
            )
        other = re.fullmatch(r"(iso|vztmpl|snippets|import|backup)/([^/]+)", name)
        if other:
            return ParsedName(other[1], None, {"iso": "iso", "vztmpl": "txz"}.get(other[1], "raw"))
        raise die(f"unable to parse directory volume name '{name}'")

    @staticmethod
    def _file_format(file_name: str) -> str:
        match = _FILE_NAME.fullmatch(file_name)
        if match is None:
            raise die(f"unable to parse volume filename '{file_name}'")
        return match[2]

    def path(self, storage: Storage, name: str) -> str:
        """Where the file lies."""
        parts = PurePosixPath(name).parts
        folder = {"iso": "template/iso", "vztmpl": "template/cache", "backup": "dump"}
        if not parts[0].isdigit():
            return f"{self.base_path(storage)}/{folder.get(parts[0], parts[0])}/{parts[-1]}"
        return f"{self.base_path(storage)}/images/{parts[-2]}/{parts[-1]}"

    def disk_name(self, vmid: int, kind: str, number: int, fmt: str) -> str:
        """The name Proxmox VE itself gives: `100/vm-100-disk-0.raw`."""
        return f"{vmid}/{kind}-{vmid}-disk-{number}.{fmt}"

    def cloudinit_name(self, vmid: int) -> tuple[str, str]:
        """(name, format) of the cloud-init drive."""
        return f"{vmid}/vm-{vmid}-cloudinit.qcow2", "qcow2"

    def exists_error(self, storage: Storage, name: str) -> ApiError:
        """Allocating what is there."""
        return die(f"disk image '{self.path(storage, name)}' already exists")

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """Asking for what is not there."""
        return die(f"volume_size_info on '{storage.storage_id}:{name}' failed - no format")

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """Activating what is not there."""
        return die(f"volume '{storage.storage_id}:{name}' does not exist")

    def delete_missing(self, storage: Storage, name: str) -> str:
        """The task's log line, or the error where `deleting_missing_fails`."""
        return f"disk image '{self.path(storage, name)}' does not exist"

    def format_line(self, storage: Storage, name: str, fmt: str, size_bytes: int) -> list[str]:
        """What creation prints into a task's log."""
        path = self.path(storage, name)
        if fmt == "raw":
            return [f"Formatting '{path}', fmt=raw size={size_bytes} preallocation=off"]
        details = "extended_l2=off preallocation=metadata compression_type=zlib"
        tail = f"size={size_bytes} lazy_refcounts=off refcount_bits=16"
        return [f"Formatting '{path}', fmt={fmt} cluster_size=65536 {details} {tail}"]

    def in_use_error(self, storage: Storage, name: str) -> ApiError | None:
        """Deleting what a running guest has open: a file is unlinked and stays open, so nothing refuses."""
        return None

    def freed_lines(self, name: str) -> list[str]:
        """What deleting a volume that exists prints."""
        return []

    def snapshot_lines(self, name: str, snapshot: str, *, created: bool) -> list[str]:
        """What making or removing a snapshot of a volume prints."""
        return []

    def snapshot_missing(self, storage: Storage, name: str, snapshot: str, switch: str) -> tuple[list[str], str]:
        """(log lines, error) of a snapshot operation (qemu-img's switch) on a volume that is gone."""
        path = self.path(storage, name)
        reason = f"qemu-img: Could not open '{path}': Could not open '{path}': No such file or directory"
        return [reason], f"command '/usr/bin/qemu-img snapshot {switch} {snapshot} {path}' failed: exit code 1"


class LvmThinPlugin(DirPlugin):
    """Thin logical volumes: `vm-<vmid>-*`, raw only, 4 MiB extents."""

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


class LvmPlugin(LvmThinPlugin):
    """Thick logical volumes. The owner in the name is not checked."""

    snapshot_formats = ()
    deleting_missing_fails = True
    clones_snapshots = False

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """See LvmThinPlugin."""
        if re.search(r"[^a-zA-Z0-9+_.\-]", filename):
            raise die(f"lvm name '{filename}' contains illegal characters")
        if not re.match(r"vm-\d+-", filename):
            raise die(f"unable to parse lvm volume name '{filename}'")
        if fmt not in (None, "raw"):
            hint = f"(did you mean '{filename}.{fmt}'?)"
            raise die(f"volume name '{filename}' does not match requested format '{fmt}' {hint}")
        return filename, "raw"

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """Activation finds nothing."""
        path = self.path(storage, name)
        reason = f'  Failed to find logical volume "{path.removeprefix("/dev/")}"'
        return die(f"can't activate LV '{path}': {reason}")

    def delete_missing(self, storage: Storage, name: str) -> str:
        """lvremove fails."""
        group = storage.options.get("vgname", "pve")
        return f"lvremove '{group}/{name}' error:   Failed to find logical volume \"{group}/{name}\""


class RbdPlugin(LvmThinPlugin):
    """Ceph block devices: `vm-<vmid>-*`, raw only, shared."""

    size_step_bytes = 1 << 20
    deleting_missing_fails = True
    module = "/usr/share/perl5/PVE/Storage/RBDPlugin.pm line 671"

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """Owner from the name."""
        try:
            return super().parse(storage, name)
        except ApiError as error:
            raise die(f"unable to parse rbd volume name '{name}'") from error

    def path(self, storage: Storage, name: str) -> str:
        """The image as QEMU opens it."""
        return f"rbd:{storage.options.get('pool', 'rbd')}/{name}"

    def exists_error(self, storage: Storage, name: str) -> ApiError:
        """rbd create's complaint."""
        return die(f"rbd create '{name}' error: rbd: create error: (17) File exists")

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """rbd info finds nothing."""
        return die(f"rbd info '{name}' error: rbd: error opening image {name}: (2) No such file or directory")

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """The same, on activation."""
        return self.info_missing(storage, name)

    def delete_missing(self, storage: Storage, name: str) -> str:
        """rbd's snapshot listing fails first."""
        return f"rbd snap ls '{name}' error: rbd: error opening image {name}: (2) No such file or directory"

    def format_line(self, storage: Storage, name: str, fmt: str, size_bytes: int) -> list[str]:
        """rbd create prints nothing."""
        return []

    def in_use_error(self, storage: Storage, name: str) -> ApiError | None:
        """rbd rm refuses an image with watchers."""
        return die(f"rbd rm '{name}' error: rbd: error: image still has watchers")

    def freed_lines(self, name: str) -> list[str]:
        """rbd rm shows its progress."""
        return ["Removing image: 100% complete...done."]

    def snapshot_lines(self, name: str, snapshot: str, *, created: bool) -> list[str]:
        """rbd snap shows its progress."""
        return [f"{'Creating' if created else 'Removing'} snap: 100% complete...done."]

    def snapshot_missing(self, storage: Storage, name: str, snapshot: str, switch: str) -> tuple[list[str], str]:
        """rbd snap finds nothing."""
        verb = {"-a": "rollback", "-d": "rm"}[switch]
        return [], f"rbd snap {verb} error: rbd: error opening image {name}: (2) No such file or directory"


Plugin = DirPlugin
PLUGINS: dict[str, Plugin] = {
    "dir": DirPlugin(),
    "nfs": DirPlugin(),
    "cifs": DirPlugin(),
    "cephfs": DirPlugin(),
    "lvm": LvmPlugin(),
    "lvmthin": LvmThinPlugin(),
    "rbd": RbdPlugin(),
}
ALWAYS_SHARED = frozenset(["nfs", "cifs", "cephfs", "rbd"])


def free_number(vmid: int, names: Iterable[str]) -> int:
    """The lowest N for which no `(vm|base)-<vmid>-disk-N` exists."""
    taken: set[int] = set()
    for name in names:
        match = re.search(rf"(?:vm|base)-{vmid}-disk-(\d+)", name.rsplit("/", 1)[-1])
        if match:
            taken.add(int(match[1]))
    number = 0
    while number in taken:
        number += 1
    return number
