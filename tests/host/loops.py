"""Loop devices and mounts that cannot be left behind, whatever ends the test.

The process moves into a mount namespace of its own, so its mounts end with it; and each loop device is set to clear
itself when its last user closes it, the first user being this process.
"""

import contextlib
import ctypes
import fcntl
import os
import struct
from pathlib import Path

LOOP_CTL_GET_FREE = 0x4C82
LOOP_CONFIGURE = 0x4C0A
LOOP_SET_CAPACITY = 0x4C07
LO_FLAGS_AUTOCLEAR = 4
CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 0x40000


def enter_private_mounts() -> None:
    """Own mount namespace for this thread and all that it starts; nothing in it reaches the host."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "no private mount namespace")


class Loop:
    """A file as a block device."""

    def __init__(self, file: Path) -> None:
        backing = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._fd, self.number = _configure_free(backing)
        finally:
            os.close(backing)

    @property
    def device(self) -> int:
        """Number of the block device, for mknod."""
        return Path(f"/dev/loop{self.number}").stat().st_rdev

    def reread_size(self) -> None:
        """After the file was made larger."""
        fcntl.ioctl(self._fd, LOOP_SET_CAPACITY)

    def flush(self) -> None:
        """Write to the file what was written to the device."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Let go of it; it clears itself when nobody else (a mount) holds it."""
        with contextlib.suppress(OSError):
            os.close(self._fd)


def _configure_free(backing: int) -> tuple[int, int]:
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(50):  # another process may take the free one first
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            path = Path(f"/dev/loop{number}")
            if not path.exists():
                os.mknod(path, 0o600 | 0o060000, os.makedev(7, number))
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            info = struct.pack("<5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, LO_FLAGS_AUTOCLEAR, b"", b"", b"", 0, 0)
            config = struct.pack("<II", backing, 0) + info + bytes(64)
            try:
                fcntl.ioctl(fd, LOOP_CONFIGURE, config)
            except OSError:
                os.close(fd)
                continue
            return fd, number
    finally:
        os.close(control)
    raise OSError("no free loop device")
