"""Making, checking and growing ext4 and xfs: the exact commands, and what their exit codes mean.

Must not decide whether a disk may be formatted: that is `signatures` and its caller.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appkit.errors import Corrupt, Denied
from csi_node.host.devices import Device
from csi_node.host.exec import CommandFailed, Runner
from csi_node.host.signatures import UNFINISHED_LABEL
from csikit.contract import FILESYSTEMS

SUPPORTED: Final = FILESYSTEMS
DEFAULT: Final = "ext4"

MKFS_TIMEOUT_S = 900.0
FSCK_TIMEOUT_S = 3600.0
GROW_TIMEOUT_S = 900.0

# e2fsck(8), a sum: 1 corrected, 2 corrected and a reboot is wanted (a mounted root), 4 left uncorrected; from 8 on it
# could not do its work. A signal (negative) or a missing program (127) is no sum and says nothing of the filesystem.
_FSCK_GOOD = (0, 1, 2, 3)
_FSCK_UNCORRECTED = 4
_FSCK_GREATEST_SUM = 63


@dataclass(frozen=True)
class FormatOptions:
    """What a StorageClass may say about mkfs, in bytes; None leaves it to mkfs."""

    block_size: int | None = None
    inode_size: int | None = None


def mount_options(fs_type: str, flags: tuple[str, ...], *, ssd: bool, read_only: bool) -> list[str]:
    """Options of the staging mount: the claim's own first, then ours. The same as the Go node service's, and `ro`."""
    options = [flag for flag in flags if not (read_only and flag in ("ro", "rw"))]
    if ssd and not {"relatime", "strictatime", "atime"} & set(flags):
        options.append("noatime")
    if fs_type == "xfs":
        options.append("nouuid")  # a copy of a volume has the same UUID as the volume, and may be mounted beside it
    if read_only:
        options.append("ro")
    return options


class Filesystems:
    """Runs the filesystems' own tools."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def make(self, device: Device, fs_type: str, options: FormatOptions, *, over_unfinished: bool) -> None:
        """Format a disk that was proved to be blank, or to hold an unfinished mkfs (`over_unfinished`)."""
        if fs_type == "xfs":
            # Without -f, mkfs.xfs itself refuses a disk with a signature on it: a second look that costs nothing.
            argv = ["mkfs.xfs", *(["-f"] if over_unfinished else []), *_xfs_options(options), str(device.node)]
            await self._runner.run(argv, timeout_s=MKFS_TIMEOUT_S)
            return
        argv = ["mkfs.ext4", *_ext4_options(options), "-F", "-m0", "-L", UNFINISHED_LABEL, str(device.node)]
        await self._runner.run(argv, timeout_s=MKFS_TIMEOUT_S)
        await self._runner.run(["tune2fs", "-L", "", str(device.node)], timeout_s=MKFS_TIMEOUT_S)

    async def check(self, device: Device, fs_type: str) -> None:
        """Check, and repair what is safe to repair, before mounting. xfs does that itself when it is mounted.

        Raises Corrupt when errors remain.
        """
        if fs_type == "ext4":
            await self._e2fsck(device)

    async def grow_mounted(self, device: Device, fs_type: str, path: Path) -> None:
        """Grow a mounted filesystem to the size of its disk. Fine if it has it already.

        Raises Denied when the kernel does not let this process grow a mounted ext4 (CAP_SYS_RESOURCE).
        """
        if fs_type == "xfs":
            await self._runner.run(["xfs_growfs", "-d", str(path)], timeout_s=GROW_TIMEOUT_S)
            return
        try:
            await self._runner.run(["resize2fs", str(device.node)], timeout_s=GROW_TIMEOUT_S)
        except CommandFailed as error:
            if "Permission denied" in error.output:
                raise Denied(
                    f"the kernel refuses to grow the mounted ext4 at {path}: this process lacks CAP_SYS_RESOURCE",
                    privilege="CAP_SYS_RESOURCE",
                    path=str(path),
                ) from error
            raise

    async def grow_unmounted_ext4(self, device: Device) -> None:
        """Grow an ext4 that is mounted nowhere; needs the full check that resize2fs insists on."""
        await self._e2fsck(device, "-f")
        await self._runner.run(["resize2fs", str(device.node)], timeout_s=GROW_TIMEOUT_S)

    async def _e2fsck(self, device: Device, *flags: str) -> None:
        argv = ["e2fsck", *flags, "-p", str(device.node)]
        try:
            await self._runner.run(argv, timeout_s=FSCK_TIMEOUT_S, expect=_FSCK_GOOD)
        except CommandFailed as error:
            if 0 < error.returncode <= _FSCK_GREATEST_SUM and error.returncode & _FSCK_UNCORRECTED:
                raise Corrupt(
                    f"the ext4 on {device.disk} has errors that must be repaired by hand "
                    f"(`e2fsck {device.node}` on this node, with the volume attached): {error.output.strip()}"
                ) from error
            raise


def _ext4_options(options: FormatOptions) -> list[str]:
    return [
        *(["-b", str(options.block_size)] if options.block_size else []),
        *(["-I", str(options.inode_size)] if options.inode_size else []),
    ]


def _xfs_options(options: FormatOptions) -> list[str]:
    return [
        *(["-b", f"size={options.block_size}"] if options.block_size else []),
        *(["-i", f"size={options.inode_size}"] if options.inode_size else []),
    ]
