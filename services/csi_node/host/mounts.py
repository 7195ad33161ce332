"""Mounts: what /proc/self/mountinfo says, and mount, bind, remount and unmount done so that it says it.

The kernel's table is the only truth in here: a mount is looked up at exactly its path (asking for "the filesystem of
this path" would climb to the parent's when nothing is mounted, and act on the node's own disk), and each change is
believed when the table shows it. Nothing is ever deleted recursively, and never unmounted lazily: a lazy unmount
hides a filesystem that is still being written to.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appkit.errors import FailedPrecondition, Unavailable
from csi_node.host.exec import CommandFailed, Runner
from csi_node.host.kernel import DeviceNumber, Kernel

MOUNT_TIMEOUT_S = 110.0
"""Mounting replays a journal and unmounting writes what is dirty: both can take long on a busy storage."""

MAX_STACKED = 16
"""Mounts over one another at one path that unmount() takes off before it gives up."""

PER_MOUNT_FLAGS = ("nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "nosymfollow")
"""Options of the mount, not of the filesystem. A bind copies them; a remount drops those it does not name."""

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo (proc(5)).

    `number` is the filesystem's st_dev: the block device for ext4 and xfs, an anonymous 0:N for tmpfs and the like.
    `root` is the directory of the filesystem that is mounted. `options` belong to this mount, `super_options` to the
    filesystem; either may say `ro`.
    """

    id: int
    parent_id: int
    number: DeviceNumber
    root: str
    path: Path
    options: tuple[str, ...]
    propagation: tuple[str, ...]
    fs_type: str
    source: str
    super_options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written through this mount."""
        return "ro" in self.options or "ro" in self.super_options


def parse_mountinfo(text: str) -> list[Mount]:
    """Read mountinfo, in the kernel's order: of several mounts at one path the last one is on top.

    Lines that do not have the documented form are left out: a newer kernel may add fields before the dash (they are
    kept as propagation), it will not change the rest.
    """
    found = []
    # Not splitlines(): the kernel escapes a newline in a path, but none of the other characters that would end a line.
    for line in text.split("\n"):
        head, separator, tail = line.partition(" - ")
        before, after = head.split(" "), tail.split(" ")
        if not separator or len(before) < 6 or len(after) < 3:
            continue
        major, _, minor = before[2].partition(":")
        if not all(number.isdecimal() for number in (before[0], before[1], major, minor)):
            continue
        found.append(
            Mount(
                id=int(before[0]),
                parent_id=int(before[1]),
                number=DeviceNumber(int(major), int(minor)),
                root=_unescape(before[3]),
                path=Path(_unescape(before[4])),
                options=tuple(before[5].split(",")),
                propagation=tuple(before[6:]),
                fs_type=_unescape(after[0]),
                source=_unescape(after[1]),
                super_options=tuple(after[2].split(",")),
            )
        )
    return found


def _unescape(field: str) -> str:
    """Undo the octal escapes of space, tab, newline, backslash and hash."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


def containing(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """The mount that `path` lies in: the last of those with the longest path above it."""
    best: Mount | None = None
    for mount in mounts:
        if path.is_relative_to(mount.path) and (best is None or len(mount.path.parts) >= len(best.path.parts)):
            best = mount
    return best


class Mounts:
    """The mount table of this machine, as this process sees it."""

    def __init__(self, runner: Runner, kernel: Kernel) -> None:
        self._runner = runner
        self._kernel = kernel

    def all(self) -> list[Mount]:
        """Every mount, in the kernel's order."""
        return parse_mountinfo(self._kernel.mountinfo())

    def find(self, path: Path) -> Mount | None:
        """The mount that is on top at exactly `path`; None when nothing is mounted there."""
        at = real_path(path)
        return next((mount for mount in reversed(self.all()) if mount.path == at), None)

    def of_device(self, number: DeviceNumber) -> list[Mount]:
        """Every mount of the filesystem on this device."""
        return [mount for mount in self.all() if mount.number == number]

    async def of_node(self, node: Path, number: DeviceNumber) -> list[Mount]:
        """Every place where this device node itself is bound, as raw block volumes are; not the filesystem on it.

        By name first, since a stat of every mount would hang on a dead one; then by number, since names are given anew.
        """
        named = [mount for mount in self.all() if mount.root.rpartition("/")[2] == node.name]
        return [mount for mount in named if await self._kernel.block_device_number(mount.path) == number]

    async def mount(self, device: Path, path: Path, fs_type: str, options: Sequence[str]) -> Mount:
        """Mount a filesystem and answer the mount as the kernel shows it."""
        await self._run(["mount", "-t", fs_type, *_options(options), str(device), str(path)])
        return self._get(path, f"mounting {device}")

    async def bind(self, source: Path, path: Path, *, read_only: bool) -> Mount:
        """Bind `source` (a directory, or a device node) to `path`.

        Read-only takes two steps, since the kernel ignores `ro` at the bind itself. When the second one fails, the
        first is undone; when the process dies between them, `make_read_only` is the rest.
        """
        await self._run(["mount", "--bind", str(source), str(path)])
        bound = self._get(path, f"binding {source}")
        if not read_only:
            return bound
        try:
            return await self.make_read_only(bound)
        except BaseException:
            await self.unmount(path)
            raise

    async def make_read_only(self, mount: Mount) -> Mount:
        """Make one mount read-only, its filesystem and the other mounts of it as they were.

        A remount drops the flags that the bind has copied (nosuid, noexec, ...) unless it names them again.
        """
        flags = [flag for flag in PER_MOUNT_FLAGS if flag in mount.options]
        await self._run(["mount", *_options(["remount", "bind", "ro", *flags]), str(mount.path)])
        now = self._get(mount.path, f"making {mount.path} read-only")
        if "ro" not in now.options:
            raise Unavailable(f"{mount.path} was to be read-only, but the kernel shows it as {','.join(now.options)}")
        return now

    async def flush(self, path: Path) -> None:
        """Write what is dirty in the filesystem mounted at `path`, and see that it was written.

        Before an unmount: umount(8) does not tell of data that could not be written, and where another mount namespace
        has a copy of the mount, unmounting it here writes nothing.
        """
        await self._run(["sync", "--file-system", str(path)])

    async def unmount(self, path: Path) -> int:
        """Take every mount off `path`; answers how many there were. Nothing mounted there is fine.

        Raises FailedPrecondition when the filesystem is in use, and Unavailable when it stays mounted for no reason
        the kernel gives.
        """
        for taken in range(MAX_STACKED):
            if self.find(path) is None:
                return taken
            try:
                await self._run(["umount", str(real_path(path))])
            except CommandFailed as error:
                if "busy" in error.output:
                    raise FailedPrecondition(f"{path} is still in use and cannot be unmounted: {error}") from error
                raise
        if self.find(path) is not None:
            raise Unavailable(f"something is still mounted at {path} after {MAX_STACKED} unmounts")
        return MAX_STACKED

    def _get(self, path: Path, doing: str) -> Mount:
        mount = self.find(path)
        if mount is None:
            raise Unavailable(
                f"{doing} was reported as done, but /proc/self/mountinfo shows nothing at {path} "
                "(the container must mount the kubelet directory with Bidirectional propagation)"
            )
        return mount

    async def _run(self, argv: Sequence[str]) -> None:
        await self._runner.run(argv, timeout_s=MOUNT_TIMEOUT_S)


def check_mount_point(path: Path) -> None:
    """Raises FailedPrecondition when `path` is a symbolic link: what is mounted on it would appear somewhere else."""
    if path.is_symlink():
        raise FailedPrecondition(f"{path} is a symbolic link to {path.readlink()}; nothing is mounted through a link")


def real_path(path: Path) -> Path:
    """`path` with the symbolic links above its last part resolved, as the kernel writes it in its table.

    The last part is left alone: it is the mount point, and looking at it would ask the filesystem mounted there.
    """
    return Path(os.path.realpath(path.parent)) / path.name


def _options(options: Sequence[str]) -> list[str]:
    unique = list(dict.fromkeys(options))
    return ["-o", ",".join(unique)] if unique else []
