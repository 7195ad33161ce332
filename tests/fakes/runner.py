"""A machine for the node service that needs no root: plays the host's commands and system calls, with behaviour.

`FakeHost` is both a `Runner` (mkfs, mount, ... as the real ones act, with their exit codes and words) and a `Kernel`.
Disks are what the fake sysfs says (`<sys>/block/<name>`), with plain files as device nodes (`<dev>/<name>`, or a link
to the volume's file), so a volume keeps its filesystem when it is plugged into another fake machine. A mount is a
symbolic link to the filesystem's folder of files, so that a test or demo really can write and read through it; the
table of mounts is a file in the form of /proc/self/mountinfo and survives a restart of the service.

What it cannot play: read-only mounts refuse nothing, and files that were written take no space.
"""

# ruff: noqa: ASYNC240 - its files are small and local, and virtual time must not wait for threads
import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appkit.errors import Unavailable
from csi_node.host.exec import CommandFailed, CommandTimeout, Completed
from csi_node.host.kernel import DeadMount, DeviceNumber, NoAnswer, Usage
from csi_node.host.mounts import Mount, parse_mountinfo
from tests.fakes import disk_formats
from tests.fakes.disk_formats import Superblock

ROOT_MOUNT = "1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
DEVICES = DeviceNumber(0, 5)
XFS_LEAST_BYTES = 300 * 1024 * 1024


class Refused(Exception):
    """A command's way to end: exit code and words."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass
class Trouble:
    """What happens to a program once: it ends with `code` before it did anything, or is killed half-way."""

    program: str
    code: int = 1
    words: str = "played failure"
    killed: bool = False


class ProcessKilled(BaseException):
    """The service is killed (SIGKILL): no code of it runs any more, no clean-up either."""


class FakeHost:
    """One machine. `contents` may be shared by several: the filesystems' files are kept there."""

    def __init__(self, *, dev_root: Path, sys_root: Path, state: Path, contents: Path) -> None:
        self._dev = dev_root
        self._sys = sys_root
        self._table = state / "mountinfo"
        self._contents = contents
        for folder in (state, contents):
            folder.mkdir(parents=True, exist_ok=True)
        if not self._table.exists():
            self._table.write_text(ROOT_MOUNT)
        self.lines: list[list[str]] = []
        self.troubles: list[Trouble] = []
        self.duration_s: dict[str, float] = {}
        self.busy: set[Path] = set()
        self.shut_down: set[DeviceNumber] = set()
        self.slow: set[DeviceNumber] = set()
        self.can_grow_mounted_ext4 = True
        self.mounted_elsewhere: set[DeviceNumber] = set()
        self.before: dict[str, Callable[[], None]] = {}
        self.lives = 0
        """How many commands the service may run to their ends before it is killed; 0 is no limit."""
        self.killed_before_the_last = False
        """Whether the last of them is not run."""

    def programs(self) -> list[str]:
        """Names of the programs run, in order; the list is emptied."""
        names = [line[0] for line in self.lines]
        self.lines.clear()
        return names

    # Runner

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", expect: Container[int] = (0,)
    ) -> Completed:
        if self.lives < 0:
            raise ProcessKilled
        if self.lives == 1 and self.killed_before_the_last:
            self.lives = -1
            raise ProcessKilled
        self.lines.append(list(argv))
        program = argv[0]
        if hook := self.before.pop(program, None):
            hook()
        trouble = next((each for each in self.troubles if each.program == program), None)
        if trouble:
            self.troubles.remove(trouble)
        duration_s = self.duration_s.get(program, 0.0)
        await asyncio.sleep(min(duration_s, timeout_s))
        if duration_s > timeout_s:
            raise CommandTimeout(argv, timeout_s, reaped=True)
        try:
            if trouble and not trouble.killed:
                raise Refused(trouble.code, trouble.words)
            played = getattr(self, f"_{program.replace('.', '_').replace('-', '_')}", None)
            if played is None:
                raise Refused(127, "cannot be started: no such program")
            output = played(list(argv[1:]), killed=bool(trouble))
            code = 0
        except Refused as refused:
            code, output = refused.code, str(refused)
        if trouble and trouble.killed:
            raise CommandTimeout(argv, timeout_s, reaped=True)
        if self.lives > 0:
            self.lives = self.lives - 1 or -1
        if self.lives < 0:
            raise ProcessKilled
        if code not in expect:
            raise CommandFailed(argv, code, output)
        return Completed(tuple(argv), code, output, "")

    # Kernel

    def mountinfo(self) -> str:
        return self._table.read_text()

    async def block_device_number(self, path: Path) -> DeviceNumber | None:
        mount = self._find(path)
        if mount is not None:
            return _bound_device(mount)
        if path.parent != self._dev or not path.exists():
            return None
        return self._number(path.name)

    @asynccontextmanager
    async def pinned(self, path: Path, number: DeviceNumber) -> AsyncIterator[None]:
        if await self.block_device_number(path) != number:
            raise Unavailable(f"{path} is not device {number}")
        yield

    async def is_claimed(self, path: Path) -> bool:
        return self._number(path.name) in self.mounted_elsewhere or self._is_mounted(path.name)

    async def read(self, path: Path, offset: int, length: int) -> bytes:
        name = path.name
        if self._number(name) is None or not path.exists():
            raise Unavailable(f"cannot read {path}: no such device")
        size = self._size(name)
        if offset + length > size:
            raise Unavailable(f"{path} ends at byte {size}")
        with path.open("rb") as disk:
            disk.seek(offset)
            return disk.read(length).ljust(length, b"\0")

    async def usage(self, path: Path) -> Usage:
        mount = self._find(path)
        if mount is not None and mount.number in self.slow:
            raise NoAnswer(f"statfs of {path} did not end: the disk does not answer")
        if mount is None or mount.number in self.shut_down or self._name(mount.number) is None:
            raise DeadMount(f"the filesystem at {path} does not answer: Input/output error")
        superblock = self._superblock(self._name(mount.number) or "")
        used = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        total = superblock.size_bytes
        inodes = total // 16384
        return Usage(total, used, total - used, inodes, 11, inodes - 11)

    async def write_attribute(self, path: Path, value: str) -> None:
        path.write_text(value)

    # The machine

    def _number(self, name: str) -> DeviceNumber | None:
        try:
            major, _, minor = (self._sys / "block" / name / "dev").read_text().strip().partition(":")
        except OSError:
            return None
        return DeviceNumber(int(major), int(minor))

    def _size(self, name: str) -> int:
        return int((self._sys / "block" / name / "size").read_text()) * 512

    def _name(self, number: DeviceNumber) -> str | None:
        names = (entry.name for entry in (self._sys / "block").iterdir())
        return next((name for name in names if self._number(name) == number), None)

    def _superblock(self, name: str) -> Superblock:
        superblock = disk_formats.read_superblock(self._dev / name)
        if superblock is None:
            raise Refused(1, f"Bad magic number in super-block while trying to open {self._dev / name}")
        return superblock

    def _device(self, text: str) -> str:
        path = Path(text)
        if path.parent != self._dev or self._number(path.name) is None or not path.exists():
            raise Refused(2, f"{text}: No such file or directory")
        return path.name

    def _mounts(self) -> list[Mount]:
        return parse_mountinfo(self._table.read_text())

    def _find(self, path: Path) -> Mount | None:
        return next((mount for mount in reversed(self._mounts()) if mount.path == path), None)

    def _is_mounted(self, name: str) -> bool:
        return any(mount.number == self._number(name) for mount in self._mounts())

    def _write(self, mounts: list[Mount]) -> None:
        lines = [_line(mount) for mount in mounts]
        self._table.write_text("".join(lines))

    def _add(self, mount: Mount) -> None:
        mounts = self._mounts()
        self._write([*mounts, replace(mount, id=max(each.id for each in mounts) + 1)])
        self._show(mount.path)

    def _show(self, path: Path) -> None:
        """Make the path look as the mount on top of it says."""
        mount = self._find(path)
        if path.is_symlink():
            target = path.readlink()
            path.unlink()
            path.mkdir() if target.parent == self._contents else path.touch()
        if mount is None:
            return
        if _bound_device(mount):
            path.unlink()
            path.symlink_to(self._dev / mount.root.lstrip("/"))
        else:
            path.rmdir()
            path.symlink_to(self._contents / mount.super_options[-1].removeprefix("id="))

    # The programs

    def _blkid(self, args: list[str], *, killed: bool) -> str:
        try:
            name = self._device(args[-1])
        except Refused:
            raise Refused(2, "") from None
        tags = disk_formats.read_signatures(self._dev / name)
        if tags.get("TYPE") == "ambivalent":
            raise Refused(8, "ambivalent result (probably more filesystems on the device)")
        if not tags:
            raise Refused(2, "")
        return "".join(f"{key}={value}\n" for key, value in {"DEVNAME": args[-1], **tags}.items())

    def _wipefs(self, args: list[str], *, killed: bool) -> str:
        file = self._dev / self._device(args[-1])
        found = disk_formats.read_signatures(file)
        return "".join(f"{kind}\n" for kind in [*found.values(), *disk_formats.read_remains(file)])

    def _sync(self, args: list[str], *, killed: bool) -> str:
        if self._find(Path(args[-1])) is None:
            raise AssertionError(f"{args[-1]} was flushed, which is no mount")
        return ""

    def _mkfs_ext4(self, args: list[str], *, killed: bool) -> str:
        name = self._device(args[-1])
        if self._is_mounted(name):
            raise Refused(1, f"{args[-1]} is mounted; will not make a filesystem here!")
        disk_formats.clear(self._dev / name)
        if not killed:
            label = args[args.index("-L") + 1] if "-L" in args else ""
            self._make(name, Superblock("ext4", self._size(name), uuid.uuid4(), label))
        return ""

    def _mkfs_xfs(self, args: list[str], *, killed: bool) -> str:
        name = self._device(args[-1])
        if self._is_mounted(name):
            raise Refused(1, f"mkfs.xfs: {args[-1]} contains a mounted filesystem")
        if self._size(name) < XFS_LEAST_BYTES:
            raise Refused(1, "Filesystem must be larger than 300MB.")
        if disk_formats.read_signatures(self._dev / name) and "-f" not in args:
            raise Refused(1, f"mkfs.xfs: {args[-1]} appears to contain an existing filesystem. Use the -f option")
        disk_formats.clear(self._dev / name)
        self._make(name, Superblock("xfs", self._size(name), uuid.uuid4(), in_progress=killed))
        return ""

    def _make(self, name: str, superblock: Superblock) -> None:
        (self._contents / superblock.contents).mkdir()
        disk_formats.write_superblock(self._dev / name, superblock)

    def _tune2fs(self, args: list[str], *, killed: bool) -> str:
        name = self._device(args[-1])
        if not killed:
            disk_formats.write_superblock(self._dev / name, replace(self._superblock(name), label=args[1]))
        return ""

    def _e2fsck(self, args: list[str], *, killed: bool) -> str:
        name = self._device(args[-1])
        if self._is_mounted(name) or self._number(name) in self.mounted_elsewhere:
            raise Refused(8, f"{args[-1]} is mounted. e2fsck: Cannot continue, aborting.")
        superblock = self._superblock(name)
        if superblock.state == disk_formats.BROKEN:
            raise Refused(4, f"{args[-1]}: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.")
        disk_formats.write_superblock(self._dev / name, replace(superblock, state=disk_formats.CLEAN))
        if superblock.state == disk_formats.DIRTY:
            raise Refused(1, f"{args[-1]}: FIXED")
        return f"{args[-1]}: clean"

    def _resize2fs(self, args: list[str], *, killed: bool) -> str:
        name = self._device(args[-1])
        if self._is_mounted(name) and not self.can_grow_mounted_ext4:
            raise Refused(1, "resize2fs: Permission denied to resize filesystem")
        checked = ["e2fsck", "-f", "-p", args[-1]]
        if not self._is_mounted(name) and self.lines[-2] != checked:
            raise Refused(1, f"Please run 'e2fsck -f {args[-1]}' first.")
        disk_formats.write_superblock(self._dev / name, self._superblock(name).grown(self._size(name)))
        return ""

    def _xfs_growfs(self, args: list[str], *, killed: bool) -> str:
        mount = self._find(Path(args[-1]))
        if mount is None or mount.fs_type != "xfs":
            raise Refused(1, f"xfs_growfs: {args[-1]} is not a mounted XFS filesystem")
        if mount.read_only:
            raise Refused(1, "xfs_growfs: XFS_IOC_FSGROWFSDATA xfsctl failed: Read-only file system")
        name = self._name(mount.number)
        if name is None:
            raise Refused(1, "xfs_growfs: cannot open: Input/output error")
        disk_formats.write_superblock(self._dev / name, self._superblock(name).grown(self._size(name)))
        return ""

    def _mount(self, args: list[str], *, killed: bool) -> str:
        path = Path(args[-1])
        options = args[args.index("-o") + 1].split(",") if "-o" in args else []
        if "remount" in options:
            return self._remount(path, options)
        if not path.is_dir() and "--bind" not in args:
            raise Refused(32, f"mount: {path}: mount point does not exist.")
        if "--bind" in args:
            return self._bind(args[-2], path)
        name = self._device(args[-2])
        superblock = self._superblock(name)
        if args[args.index("-t") + 1] != superblock.fs_type or superblock.in_progress:
            raise Refused(32, f"mount: {path}: wrong fs type, bad option, bad superblock on {args[-2]}.")
        if superblock.fs_type == "ext4" and "ro" not in options:
            disk_formats.write_superblock(self._dev / name, replace(superblock, was_mounted=True))
        write = "ro" if "ro" in options or _read(self._sys / "block" / name / "ro") == "1" else "rw"
        number = self._number(name)
        assert number is not None
        flags = [write, *(flag for flag in options if flag in ("nosuid", "nodev", "noexec", "noatime"))]
        super_options = (write, f"id={superblock.contents}")
        self._add(
            Mount(0, 1, number, "/", path, tuple(flags), ("shared:2",), superblock.fs_type, args[-2], super_options)
        )
        return ""

    def _bind(self, source: str, path: Path) -> str:
        if not path.exists():
            raise Refused(32, f"mount: {path}: mount point does not exist.")
        if Path(source).parent == self._dev:
            name = self._device(source)
            marked = ("rw", f"blk={self._number(name)}")
            self._add(Mount(0, 1, DEVICES, f"/{name}", path, ("rw",), (), "devtmpfs", "udev", marked))
            return ""
        bound = self._find(Path(source))
        if bound is None:
            raise AssertionError(f"{source} was bound, which is no mount: Pods would write to the host's disk")
        self._add(replace(bound, path=path))
        return ""

    def _remount(self, path: Path, options: list[str]) -> str:
        mount = self._find(path)
        if mount is None:
            raise Refused(32, f"mount: {path}: mount point not mounted or bad option.")
        flags = tuple(option for option in options if option not in ("remount", "bind"))
        self._write([replace(each, options=flags) if each.id == mount.id else each for each in self._mounts()])
        return ""

    def _umount(self, args: list[str], *, killed: bool) -> str:
        path = Path(args[-1])
        mount = self._find(path)
        if mount is None:
            raise Refused(32, f"umount: {path}: not mounted.")
        if path in self.busy:
            raise Refused(32, f"umount: {path}: target is busy.")
        self._write([each for each in self._mounts() if each.id != mount.id])
        self._show(path)
        return ""


def _bound_device(mount: Mount) -> DeviceNumber | None:
    """Number of the device whose node is mounted here; None for a mounted filesystem."""
    mark = mount.super_options[-1]
    if not mark.startswith("blk="):
        return None
    major, _, minor = mark.removeprefix("blk=").partition(":")
    return DeviceNumber(int(major), int(minor))


def _line(mount: Mount) -> str:
    path = "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in str(mount.path))
    before = [str(mount.id), str(mount.parent_id), str(mount.number), mount.root, path, ",".join(mount.options)]
    after = [mount.fs_type, mount.source, ",".join(mount.super_options)]
    return " ".join([*before, *mount.propagation, "-", *after]) + "\n"


def _read(attribute: Path) -> str:
    return attribute.read_text().strip() if attribute.exists() else ""
