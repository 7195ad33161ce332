"""What is on a disk: proof before anything is ever formatted.

Three things may be formatted over, and nothing else:

`Blank`. blkid in probing mode finds nothing at all (exit code 2; 8, "ambivalent", is refused), nor does wipefs, which
also lists what blkid does not believe (superblocks with a wrong checksum; the second copy of a partition table whose
first one was wiped). And we read the first and the last MiB ourselves without an error, because blkid gives the same
exit code for a disk it cannot read, and the first 2 KiB are zero. Not the whole disk: a fresh thick LVM volume holds
what its extents held before, except for signatures and the first 4 KiB, which lvcreate clears (Proxmox runs it with -W
y, and -Z y is its default). A fresh volume of any other storage type reads zero throughout. 2 KiB, because that is
where the superblock of ext4 ends and where nearly every format has its first mark; and no more, because a mkfs.ext4
with 1 KiB blocks that was killed leaves its group descriptors right behind it. A filesystem of which just the first 4
KiB were lost cannot be told from a fresh LVM volume by anything on the disk.

`Unfinished`. A mkfs that was cut off by a kill, a crash or a power cut. Nobody can have stored anything in it:
- ext4: mkfs writes the superblock last, so a killed mkfs leaves a blank disk by the rule above. After a power cut the
  superblock may have reached the disk and the rest not. Hence mkfs labels the filesystem with `UNFINISHED_LABEL`, and
  the label is taken off when mkfs has ended and synced; a filesystem with that label was never mounted by us. Another
  driver does not know the label and may have mounted it: then its superblock has a time of mounting, and it is in use.
- xfs: mkfs itself sets `inprogress` in the superblock first, and clears it after everything else was flushed. The
  kernel refuses to mount it while that is set.

Everything else is `Filesystem` (usable when it is the kind that was asked for) or `Foreign`.
"""

import struct
from dataclasses import dataclass

from csi_node.host.devices import Device
from csi_node.host.exec import CommandFailed, Runner
from csi_node.host.kernel import Kernel

UNFINISHED_LABEL = "pvecloud-mkfs"
"""At most 16 bytes, the length of an ext4 label. On disks for ever: never change it."""

_MIB = 1024 * 1024
_HEAD_BYTES = 2048
_BLKID_TIMEOUT_S = 60.0
_BLKID_NOTHING, _BLKID_AMBIVALENT = 2, 8


@dataclass(frozen=True)
class Blank:
    """Proved to hold nothing. `leftovers`: not all zero; what a thick volume inherits from an earlier one."""

    leftovers: bool


@dataclass(frozen=True)
class Unfinished:
    """The remains of a mkfs that did not end; nothing was ever stored in it."""

    fs_type: str


@dataclass(frozen=True)
class Filesystem:
    """A filesystem. `size_bytes` is what its superblock says; None for kinds that this service does not grow."""

    fs_type: str
    size_bytes: int | None


@dataclass(frozen=True)
class Foreign:
    """Something that is not a plain filesystem, or that nobody recognises. `what` completes "it holds ..."."""

    what: str


Content = Blank | Unfinished | Filesystem | Foreign


async def probe(device: Device, runner: Runner, kernel: Kernel) -> Content:
    """Tell what the disk holds. Changes nothing. Raises Unavailable when any part of the answer cannot be had."""
    size = device.disk.size_bytes
    span = min(_MIB, size)
    head = await kernel.read(device.node, 0, span)
    tail = await kernel.read(device.node, size - span, span)
    argv = ["blkid", "-p", "-o", "export", "-s", "TYPE", "-s", "PTTYPE", "-s", "USAGE", "-s", "LABEL", str(device.node)]
    try:
        found = await runner.run(argv, timeout_s=_BLKID_TIMEOUT_S, expect=(0, _BLKID_NOTHING))
    except CommandFailed as error:
        if error.returncode == _BLKID_AMBIVALENT:
            return Foreign("the signatures of several formats at once")
        raise
    tags = dict(line.partition("=")[::2] for line in found.stdout.splitlines())
    content = _judge(tags, head, tail)
    if isinstance(content, Blank):
        listed = await runner.run(
            ["wipefs", "--noheadings", "--output", "TYPE", str(device.node)], timeout_s=_BLKID_TIMEOUT_S
        )
        if kinds := ", ".join(dict.fromkeys(listed.stdout.split())):
            return Foreign(f"remains of {kinds}")
    return content


def filesystem_size(fs_type: str, head: bytes) -> int | None:
    """Size in bytes that the superblock in the first 2 KiB of a disk claims; None for other kinds than ext4 and xfs."""
    if fs_type == "ext4":
        superblock = head[1024:2048]
        (blocks,) = struct.unpack_from("<I", superblock, 0x04)
        (log_size,) = struct.unpack_from("<I", superblock, 0x18)
        (incompatible,) = struct.unpack_from("<I", superblock, 0x60)
        if incompatible & 0x80:  # 64bit
            blocks += struct.unpack_from("<I", superblock, 0x150)[0] << 32
        return int(blocks << (10 + log_size))
    if fs_type == "xfs":
        block_size, blocks = struct.unpack_from(">IQ", head, 4)
        return int(block_size * blocks)
    return None


def _judge(tags: dict[str, str], head: bytes, tail: bytes) -> Content:
    fs_type = tags.get("TYPE", "")
    if table := tags.get("PTTYPE"):
        return Foreign(f"a partition table ({table})")
    if fs_type and tags.get("USAGE") != "filesystem":
        return Foreign(f"a signature of {fs_type}")
    if fs_type:
        marked = fs_type == "ext4" and tags.get("LABEL") == UNFINISHED_LABEL and not _was_mounted(head)
        if marked or (fs_type == "xfs" and _in_progress(head)):
            return Unfinished(fs_type)
        return Filesystem(fs_type, filesystem_size(fs_type, head))
    if not _is_zero(head[:_HEAD_BYTES]):
        return Foreign("data that no known format explains in its first 2 KiB")
    return Blank(leftovers=not _is_zero(head + tail))


def _is_zero(content: bytes) -> bool:
    return content.count(0) == len(content)


def _was_mounted(head: bytes) -> bool:
    """The field `s_mtime` of an ext4 superblock: mkfs leaves it zero, every mount for writing sets it."""
    (mounted_at,) = struct.unpack_from("<I", head, 1024 + 0x2C)
    return bool(mounted_at)


def _in_progress(head: bytes) -> bool:
    """The field `sb_inprogress` of an xfs superblock (one byte at offset 126)."""
    return head[126] != 0
