"""LUNs of an iSCSI target as they are: nothing is made, freed or grown. From the plugin's source, not recorded."""

import re

from tests.pvesim.errors import ApiError, die
from tests.pvesim.plugindir import DirPlugin, ParsedName
from tests.pvesim.state import Storage


class IscsiPlugin(DirPlugin):
    """`0.0.1.scsi-3600...`: channel, id, LUN and the disk's own name; nobody's volume."""

    contents = frozenset(["images", "none"])
    shared = True
    unrecorded = "all"
    formats = ("raw",)
    snapshot_formats = ()
    looks_into_images = False

    def name_for(self, storage: Storage, vmid: int, filename: str, fmt: str | None) -> tuple[str, str]:
        """Never."""
        raise die("can't allocate space in iscsi storage")

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """No owner."""
        if re.fullmatch(r"\d+\.\d+\.\d+\.\S+", name) is None:
            raise die(f"unable to parse iscsi volume name '{name}'")
        return ParsedName("images", None, "raw")

    def check_limits(self, storage: Storage, name: str, size_bytes: int, fmt: str) -> None:
        """None."""

    def path(self, storage: Storage, name: str) -> str:
        """The disk by its own name."""
        return f"/dev/disk/by-id/{name.split('.', 3)[3]}"

    def not_active(self, storage: Storage) -> ApiError:
        """The portal does not answer."""
        return die(f"storage '{storage.storage_id}' is not online")

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """No such device."""
        return die(f"volume_size_info on '{storage.storage_id}:{name}' failed - no size")

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """No such device."""
        return die(f"unable to find device for volume '{storage.storage_id}:{name}'")

    def free_refused(self) -> ApiError | None:
        """Always."""
        return die("can't free space in iscsi storage")

    def list_entry(self, used_bytes: int, parent: str | None, ctime: int, content: str) -> dict[str, object]:
        """Nothing more is known."""
        return {}

    def shown_used(self, used_bytes: int) -> int:
        """Not told."""
        return 0

    def resize_refused(self, storage: Storage, name: str, snapshots: bool) -> ApiError | None:
        """Always."""
        return die("volume resize is not possible on iscsi device")
