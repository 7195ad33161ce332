"""How large a volume becomes for the size that was asked. Pure.

Must not round further than the storage and the filesystem need: the rest belongs to whoever pays for it.
"""

from dataclasses import dataclass

from csi_controller.storage_types import MIB
from csikit.capacity import resolve

DEFAULT_BYTES = 10 * 1024 * MIB
XFS_MINIMUM_BYTES = 300 * MIB  # mkfs.xfs refuses less


@dataclass(frozen=True, slots=True)
class SizeRange:
    """CSI's capacity range: at least `required_bytes` (0: any), at most `limit_bytes` (0: no limit)."""

    required_bytes: int = 0
    limit_bytes: int = 0

    def __str__(self) -> str:
        limit = f" and at most {self.limit_bytes}" if self.limit_bytes else ""
        return f"at least {self.required_bytes}{limit} bytes"

    def holds(self, size_bytes: int) -> bool:
        """Whether a volume of this size satisfies the range."""
        return self.required_bytes <= size_bytes and (not self.limit_bytes or size_bytes <= self.limit_bytes)


def smallest_size(wanted: SizeRange, *, step_bytes: int, fs_type: str) -> int:
    """The smallest size that satisfies the range on a storage of this step, and on which the filesystem can be made.

    Raises InvalidRequest for a range that contradicts itself, OutOfRange for one that no allowed size meets.
    """
    minimum_bytes = XFS_MINIMUM_BYTES if fs_type == "xfs" else step_bytes
    return resolve(wanted, default_bytes=DEFAULT_BYTES, step_bytes=step_bytes, minimum_bytes=minimum_bytes)
