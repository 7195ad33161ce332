"""The system calls this service makes on devices and mounted paths, behind one small protocol.

They are asynchronous because each of them can hang for as long as a dead disk makes it: the real ones run in a thread
with a time-out, so that one lost disk never stops the service. (Plain directories and sysfs attributes are not in
here: those do not wait for a disk.)
"""

import asyncio
import contextlib
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast

from appkit.errors import Unavailable

T = TypeVar("T")

CALL_TIMEOUT_S = 20.0
"""One system call on a healthy disk takes milliseconds; SCSI gives up on a command after 30 s and repeats it."""

DEAD_ERRNOS = frozenset(
    {errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN, errno.EUCLEAN}
)
"""What a filesystem answers whose disk was taken away or which shut itself down after an I/O error."""


class DeadMount(Unavailable):
    """The filesystem at a path is dead: its disk is gone, or it has shut itself down after an I/O error."""


class NoAnswer(Unavailable):
    """A system call did not end in time. The disk may be dead or just slow, so nothing may be concluded from it."""


class DeviceNumber(NamedTuple):
    """major:minor of a block device. Kernel names are reused and links lie; this is what a mount really refers to."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"


@dataclass(frozen=True)
class Usage:
    """What statfs(2) says of a mounted filesystem. Bytes and inodes; `available` is what an ordinary user may take."""

    total_bytes: int
    used_bytes: int
    available_bytes: int
    total_inodes: int
    used_inodes: int
    available_inodes: int


class Kernel(Protocol):
    """System calls on devices and mounts."""

    def mountinfo(self) -> str:
        """The text of /proc/self/mountinfo: the mounts as this process sees them."""
        ...

    async def block_device_number(self, path: Path) -> DeviceNumber | None:
        """The number of the block device that `path` is; None if it does not exist or is something else."""
        ...

    def pinned(self, path: Path, number: DeviceNumber) -> AbstractAsyncContextManager[None]:
        """For the length of the body, no other disk can take this device's number or kernel name.

        Raises Unavailable when `path` is not the block device of this number.
        """
        ...

    async def is_claimed(self, path: Path) -> bool:
        """Whether somebody has the device for himself: it is mounted in any mount namespace, or a tool works on it."""
        ...

    async def read(self, path: Path, offset: int, length: int) -> bytes:
        """Exactly `length` bytes of a device. Raises Unavailable when they cannot all be read."""
        ...

    async def usage(self, path: Path) -> Usage:
        """statfs(2) of a mounted path. Raises DeadMount when the filesystem is dead, NoAnswer when it may be."""
        ...

    async def write_attribute(self, path: Path, value: str) -> None:
        """Write to a sysfs attribute that makes the kernel talk to a disk or bus (rescan, scan, state)."""
        ...


class LinuxKernel:
    """The real `Kernel`."""

    def __init__(self, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._hanging: set[str] = set()

    def mountinfo(self) -> str:
        """See `Kernel.mountinfo`."""
        # As bytes: reading text would turn a carriage return in a path into the end of a line.
        return Path("/proc/self/mountinfo").read_bytes().decode("utf-8", errors="surrogateescape")

    async def block_device_number(self, path: Path) -> DeviceNumber | None:
        """See `Kernel.block_device_number`."""
        return await self._call(lambda: _block_device_number(path), f"stat of {path}")

    @asynccontextmanager
    async def pinned(self, path: Path, number: DeviceNumber) -> AsyncIterator[None]:
        """See `Kernel.pinned`. An open device keeps its number: sd gives a name away after the last one has closed."""
        descriptor = await self._call(lambda: _open_block(path), f"opening {path}", too_late=os.close)
        try:
            if (found := _number(os.fstat(descriptor))) != number:
                raise Unavailable(f"{path} is device {found}, no longer {number}: the disk was swapped or unplugged")
            yield
        finally:
            os.close(descriptor)

    async def is_claimed(self, path: Path) -> bool:
        """See `Kernel.is_claimed`."""
        return await self._call(lambda: _is_claimed(path), f"claiming {path}")

    async def read(self, path: Path, offset: int, length: int) -> bytes:
        """See `Kernel.read`. Never creates the file, never reads anything but a block device."""
        return await self._call(lambda: _read(path, offset, length), f"reading {path}")

    async def usage(self, path: Path) -> Usage:
        """See `Kernel.usage`."""
        try:
            return await self._call(lambda: _usage(path), f"statfs of {path}")
        except OSError as error:
            if error.errno in DEAD_ERRNOS:
                raise DeadMount(f"the filesystem at {path} does not answer: {error.strerror}") from error
            raise Unavailable(f"statfs of {path} failed: {error.strerror}") from error

    async def write_attribute(self, path: Path, value: str) -> None:
        """See `Kernel.write_attribute`."""
        try:
            await self._call(lambda: _write_existing(path, value), f"writing to {path}")
        except OSError as error:
            raise Unavailable(f"cannot write {value!r} to {path}: {error.strerror}") from error

    async def _call(self, call: Callable[[], T], what: str, *, too_late: Callable[[T], None] | None = None) -> T:
        """Make one system call in a thread of its own; raises NoAnswer when it takes too long.

        Not in a pool, which a few hanging calls would fill, and as a daemon, for which the end of the process does not
        wait. A call that hangs is not made again while it does, since kubelet asks for each volume every minute.
        `too_late` is given what a call returns for which nobody waits any more.
        """
        if what in self._hanging:
            raise NoAnswer(f"{what} has not ended since an earlier call: the disk does not answer")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._hanging.discard(what)
            if outcome.done():
                if error is None and too_late is not None:
                    too_late(cast("T", result))
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(cast("T", result))

        def work() -> None:
            result, failure = None, None
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - handed to the caller whole
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(settle, result, failure)

        threading.Thread(target=work, name=what, daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await outcome
        except TimeoutError:
            self._hanging.add(what)
            raise NoAnswer(f"{what} did not end within {self._timeout_s:g} s: the disk does not answer") from None


def _block_device_number(path: Path) -> DeviceNumber | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _number(status)


def _number(status: os.stat_result) -> DeviceNumber | None:
    if not stat.S_ISBLK(status.st_mode):
        return None
    return DeviceNumber(os.major(status.st_rdev), os.minor(status.st_rdev))


def _open_block(path: Path) -> int:
    """Open a block device for reading. Never creates a file and never opens anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"cannot open {path}: {error.strerror}") from error
    if _number(os.fstat(descriptor)) is None:
        os.close(descriptor)
        raise Unavailable(f"{path} is not a block device")
    return descriptor


def _is_claimed(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise Unavailable(f"cannot open {path}: {error.strerror}") from error
    return False


def _read(path: Path, offset: int, length: int) -> bytes:
    descriptor = _open_block(path)
    try:
        content = bytearray()
        while len(content) < length:
            chunk = os.pread(descriptor, length - len(content), offset + len(content))
            if not chunk:
                raise Unavailable(f"{path} ends at byte {offset + len(content)}, {length} bytes at {offset} were asked")
            content += chunk
        return bytes(content)
    except OSError as error:
        raise Unavailable(f"cannot read {length} bytes at {offset} of {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _usage(path: Path) -> Usage:
    path.lstat()  # statfs answers from memory even when xfs has shut down; this asks the filesystem itself
    found = os.statvfs(path)
    return Usage(
        total_bytes=found.f_blocks * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        total_inodes=found.f_files,
        used_inodes=found.f_files - found.f_ffree,
        available_inodes=found.f_favail,
    )


def _write_existing(path: Path, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
