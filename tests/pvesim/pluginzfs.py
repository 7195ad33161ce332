"""ZFS: volumes of a local pool (zfspool) and of a server that exports them by iSCSI (zfs).

From the plugins' sources, not recorded. Must not keep state (`storage.py` does).
"""

import re

from tests.pvesim.errors import ApiError, die
from tests.pvesim.plugindir import DirPlugin, ParsedName
from tests.pvesim.state import Storage


def _pool(storage: Storage) -> str:
    return str(storage.options.get("pool", "rpool/data"))


class ZfsPoolPlugin(DirPlugin):
    """Volumes `vm-<vmid>-*` of a local pool; whole MiB; thick unless `sparse`; only the newest snapshot rolls back."""

    contents = frozenset(["images", "rootdir"])
    unrecorded = "all"
    formats: tuple[str, ...] = ("raw", "subvol")
    snapshot_formats = ("raw", "subvol")
    size_step_bytes = 1 << 20
    looks_into_images = False
    # Only these keep a VM's disks the same on several hosts by sending differences.
    replicates = True

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """The owner is in the name and checked."""
        prefix = "subvol" if fmt == "subvol" else "vm"
        if fmt not in (None, "raw", "subvol"):
            raise die(f"unsupported format '{fmt}' at /usr/share/perl5/PVE/Storage/ZFSPoolPlugin.pm line 240.")
        if not filename.startswith(f"{prefix}-{vmid}-"):
            raise die(f"illegal name '{filename}' - should be '{prefix}-{vmid}-*'")
        return filename, fmt or "raw"

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """`vm-100-x`, or `base-100-x/vm-101-y` for a linked clone."""
        match = re.fullmatch(r"(?:((?:base|basevol)-\d+-[^/\s]+)/)?(base|basevol|vm|subvol)-(\d+)-[^/\s]+", name)
        if match is None:
            raise die(f"unable to parse zfs volume name '{name}'")
        fmt = "subvol" if match[2] in ("subvol", "basevol") else "raw"
        return ParsedName("images", int(match[3]), fmt, base=match[1], is_base=match[2].startswith("base"))

    def check_limits(self, storage: Storage, name: str, size_bytes: int, fmt: str) -> None:
        """None that are simulated."""

    def is_thick(self, storage: Storage) -> bool:
        """Space is reserved unless the storage says otherwise."""
        return str(storage.options.get("sparse", "0")) != "1"

    def no_space(self, storage: Storage, name: str, free_bytes: int, wanted_bytes: int) -> ApiError:
        """zfs create's complaint."""
        return die(f"zfs error: cannot create '{_pool(storage)}/{name}': out of space")

    def not_active(self, storage: Storage) -> ApiError:
        """The pool is not imported."""
        pool = _pool(storage).partition("/")[0]
        return die(f"could not activate storage '{storage.storage_id}', zpool {pool} is not available")

    def path(self, storage: Storage, name: str) -> str:
        """The device of the last part; a clone does not lie below its base."""
        return f"/dev/zvol/{self._dataset(storage, name)}"

    @staticmethod
    def _dataset(storage: Storage, name: str) -> str:
        return f"{_pool(storage)}/{name.rsplit('/', 1)[-1]}"

    def disk_name(self, vmid: int, kind: str, number: int, fmt: str) -> str:
        """`vm-100-disk-0`."""
        return f"{'subvol' if fmt == 'subvol' else kind}-{vmid}-disk-{number}"

    def cloudinit_name(self, vmid: int) -> tuple[str, str]:
        """`vm-100-cloudinit`."""
        return f"vm-{vmid}-cloudinit", "raw"

    def state_name(self, vmid: int, snapshot: str) -> str:
        """`vm-100-state-s1`."""
        return f"vm-{vmid}-state-{snapshot}"

    def _missing(self, storage: Storage, name: str) -> ApiError:
        return die(f"zfs error: cannot open '{self._dataset(storage, name)}': dataset does not exist")

    def exists_error(self, storage: Storage, name: str) -> ApiError:
        """zfs create's complaint."""
        return die(f"zfs error: cannot create '{self._dataset(storage, name)}': dataset already exists")

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """zfs get finds nothing."""
        return self._missing(storage, name)

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """The same, on activation."""
        return self._missing(storage, name)

    def delete_missing(self, storage: Storage, name: str) -> str:
        """Not there is as good as deleted, without a word."""
        return ""

    def in_use_error(self, storage: Storage, name: str) -> ApiError | None:
        """zfs destroy refuses an open volume."""
        return die(f"zfs error: cannot destroy '{self._dataset(storage, name)}': dataset is busy")

    def format_line(self, storage: Storage, name: str, fmt: str, size_bytes: int) -> list[str]:
        """zfs create prints nothing."""
        return []

    def list_entry(self, used_bytes: int, parent: str | None, ctime: int, content: str) -> dict[str, object]:
        """No usage; the parent is the snapshot of the base."""
        return {"parent": f"{parent}@__base__" if parent else None, "ctime": ctime}

    def shown_used(self, used_bytes: int) -> int:
        """Not told."""
        return 0

    def resize_lines(self, storage: Storage, name: str, wanted_bytes: int, real_bytes: int, *, live: bool) -> list[str]:
        """zfs set prints nothing."""
        return []

    def rollback_refused(self, name: str, snapshot: str, snapshots: list[str]) -> ApiError | None:
        """Only the newest snapshot of a volume can be gone back to."""
        if snapshots and snapshots[-1] != snapshot:
            return die(f"can't rollback, '{snapshot}' is not most recent snapshot on '{name}'")
        return None

    def snapshot_missing(self, storage: Storage, name: str, snapshot: str, switch: str) -> tuple[list[str], str]:
        """zfs finds no snapshot."""
        return [], f"zfs error: could not find any snapshots to destroy; check snapshot names. ({name}@{snapshot})"


class ZfsOverIscsiPlugin(ZfsPoolPlugin):
    """The same on a server, seen by all hosts: the volume is a LUN, and deleting a missing one fails."""

    contents = frozenset(["images"])
    shared = True
    formats = ("raw",)
    deleting_missing_fails = True
    replicates = False

    def path(self, storage: Storage, name: str) -> str:
        """As QEMU opens it; the LUN's number is the server's business."""
        target = storage.options.get("target", "iqn.2003-01.org.example:target")
        return f"iscsi://{storage.options.get('portal', '192.0.2.200')}/{target}/{sum(name.encode()) % 256}"

    def not_active(self, storage: Storage) -> ApiError:
        """The server does not answer."""
        return die(f"zfs error: ssh: connect to host {storage.options.get('portal', '')} port 22: Connection timed out")

    def delete_missing(self, storage: Storage, name: str) -> str:
        """There is no logical unit to remove."""
        return f"Could not find lu_name for zvol {name}"
