"""Storages made of files: dir, what is mounted into one (nfs, cifs, cephfs), and btrfs. The base of all storage types.

Must not keep state (`storage.py` does). dir is from Proxmox VE 9.2, recorded; for the rest see `plugins.py`.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Storage

_EXTENSIONS = r"raw|qcow2|vmdk|subvol"
_FILE_NAME = re.compile(rf"((?:base-)?[^/\s]+\.({_EXTENSIONS}))")
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

    contents: frozenset[str] = frozenset(["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"])
    shared = False
    # What of it was recorded: "" all of it, else what was not ("all": nothing was).
    unrecorded = ""
    formats: tuple[str, ...] = ("raw", "qcow2", "vmdk", "subvol")
    default_format = "raw"
    deleting_missing_fails = False
    # On which formats a snapshot of the volume is possible.
    snapshot_formats: tuple[str, ...] = ("qcow2",)
    size_step_bytes = 1
    # Whether naming and listing open every image with qemu-img.
    looks_into_images = True
    # Whether replication jobs can keep volumes the same on several hosts.
    replicates = False
    # Whether a linked clone can be made of a snapshot (of a base volume it always can).
    clones_snapshots = False

    def formats_of(self, storage: Storage) -> tuple[str, ...]:
        """Formats that a storage of this type takes, as it is configured."""
        return self.formats

    def is_thick(self, storage: Storage) -> bool:
        """Whether a volume takes its whole size at once."""
        return False

    def no_space(self, storage: Storage, name: str, free_bytes: int, wanted_bytes: int) -> ApiError:
        """A thick volume that does not fit."""
        return die(f"not enough free space ({free_bytes} < {wanted_bytes})")

    def not_active(self, storage: Storage) -> ApiError:
        """What the storage is made of is not there: a directory that nothing is mounted on."""
        reason = "directory is expected to be a mount point but is not mounted"
        return die(f"unable to activate storage '{storage.storage_id}' - {reason}: '{self.base_path(storage)}'")

    def can_snapshot(self, storage: Storage, fmt: str) -> bool:
        """Whether a volume of this format can be snapshotted here."""
        return fmt in self.snapshot_formats

    def list_entry(self, used_bytes: int, parent: str | None, ctime: int, content: str) -> dict[str, object]:
        """What a list of volumes says beside name, format, size and owner."""
        if content != "images":
            return {"ctime": ctime}
        return {"used": used_bytes, "parent": parent, "ctime": ctime}

    def shown_used(self, used_bytes: int) -> int:
        """`used` of a single volume."""
        return used_bytes

    def state_name(self, vmid: int, snapshot: str) -> str:
        """The volume that keeps a guest's memory with a snapshot."""
        return f"{vmid}/vm-{vmid}-state-{snapshot}.raw"

    def free_refused(self) -> ApiError | None:
        """Why nothing here can be freed."""
        return None

    def resize_refused(self, storage: Storage, name: str, snapshots: bool) -> ApiError | None:
        """Why a volume cannot grow."""
        return None

    def resize_lines(self, storage: Storage, name: str, wanted_bytes: int, real_bytes: int, *, live: bool) -> list[str]:
        """What growing prints."""
        return [] if live else ["Image resized."]

    def rename_lines(self, storage: Storage, former: str, name: str) -> list[str]:
        """What renaming prints."""
        return []

    def rollback_refused(self, name: str, snapshot: str, snapshots: list[str]) -> ApiError | None:
        """Why a volume cannot go back to one of its snapshots (oldest first)."""
        return None

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


class MountedPlugin(DirPlugin):
    """A share that Proxmox VE mounts itself (nfs, cifs): a directory that all hosts see."""

    contents = DirPlugin.contents - {"none"}
    shared = True
    unrecorded = "all"

    def not_active(self, storage: Storage) -> ApiError:
        """The server does not answer."""
        return die(f"storage '{storage.storage_id}' is not online")


class CephFsPlugin(MountedPlugin):
    """A file system for everything but disks."""

    contents = frozenset(["vztmpl", "iso", "backup", "snippets", "import"])


class BtrfsPlugin(DirPlugin):
    """A directory on btrfs: raw images lie in subvolumes of their own, which can be snapshotted."""

    unrecorded = "all"
    snapshot_formats = ("raw", "subvol", "qcow2")
    clones_snapshots = True

    def path(self, storage: Storage, name: str) -> str:
        """A raw image is `disk.raw` in a subvolume of the volume's name."""
        plain = super().path(storage, name)
        is_image = PurePosixPath(name).parts[0].isdigit()
        return f"{plain.removesuffix('.raw')}/disk.raw" if is_image and plain.endswith(".raw") else plain

    def delete_missing(self, storage: Storage, name: str) -> str:
        """btrfs has no subvolume to delete."""
        return f"disk image '{self.path(storage, name)}' does not exist"

    def snapshot_lines(self, name: str, snapshot: str, *, created: bool) -> list[str]:
        """btrfs subvolume's own line."""
        stem = name.removesuffix(".raw")
        if created:
            return [f"Create readonly snapshot of '{stem}' in '{stem}@{snapshot}'"]
        return [f"Delete subvolume (no-commit): '{stem}@{snapshot}'"]
