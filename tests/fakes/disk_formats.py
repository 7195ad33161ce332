"""Just enough of the formats on a disk for the fake host: superblocks that the real code can read and judge.

Sizes in bytes, offsets as in the real formats. Must not know of processes or mounts.
"""

import os
import struct
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

BLOCK = 4096
CLEAN, DIRTY, BROKEN = 1, 2, 4
"""ext4's s_state: unmounted cleanly; errors that e2fsck repairs; and (the fake's own) errors that it does not."""


@dataclass(frozen=True)
class Superblock:
    """One filesystem. `contents` names the folder in which the fake keeps its files."""

    fs_type: str
    size_bytes: int
    id: uuid.UUID
    label: str = ""
    state: int = CLEAN
    in_progress: bool = False
    was_mounted: bool = False

    @property
    def contents(self) -> str:
        return str(self.id)

    def grown(self, size_bytes: int) -> "Superblock":
        return replace(self, size_bytes=size_bytes)


def read_signatures(file: Path) -> dict[str, str]:
    """What `blkid -p -o export` says: TYPE, USAGE, PTTYPE, LABEL. TYPE "ambivalent" for two at once."""
    head = _head(file)
    types = [name for name, found in (("ext4", _is_ext4(head)), ("xfs", _is_xfs(head))) if found]
    if head.startswith(b"LUKS\xba\xbe"):
        return {"TYPE": "crypto_LUKS", "USAGE": "crypto"}
    if len(types) > 1:
        return {"TYPE": "ambivalent"}
    if types:
        superblock = read_superblock(file)
        assert superblock is not None
        label = {"LABEL": superblock.label} if superblock.label else {}
        return {**label, "TYPE": types[0], "USAGE": "filesystem"}
    return {"PTTYPE": "dos"} if head[510:512] == b"\x55\xaa" else {}


def read_remains(file: Path) -> list[str]:
    """What `wipefs` lists beyond that: the second copy of a partition table, in the last sector."""
    with file.open("rb") as disk:
        disk.seek(-512, os.SEEK_END)
        return ["gpt"] if disk.read(8) == b"EFI PART" else []


def read_superblock(file: Path) -> Superblock | None:
    head = _head(file)
    if _is_xfs(head):
        block, blocks = struct.unpack_from(">IQ", head, 4)
        return Superblock("xfs", block * blocks, uuid.UUID(bytes=head[32:48]), in_progress=head[126] != 0)
    if _is_ext4(head):
        base = 1024
        (low,) = struct.unpack_from("<I", head, base + 4)
        (high,) = struct.unpack_from("<I", head, base + 0x150)
        label = head[base + 0x78 : base + 0x88].rstrip(b"\0").decode()
        (state,) = struct.unpack_from("<H", head, base + 0x3A)
        size = (low + (high << 32)) * BLOCK
        mounted = head[base + 0x2C : base + 0x30] != bytes(4)
        return Superblock(
            "ext4", size, uuid.UUID(bytes=head[base + 0x68 : base + 0x78]), label, state, was_mounted=mounted
        )
    return None


def write_superblock(file: Path, superblock: Superblock) -> None:
    blocks = superblock.size_bytes // BLOCK
    if superblock.fs_type == "xfs":
        content = bytearray(512)
        content[0:4] = b"XFSB"
        struct.pack_into(">IQ", content, 4, BLOCK, blocks)
        content[32:48] = superblock.id.bytes
        content[126] = superblock.in_progress
        _write(file, 0, bytes(content))
        return
    content = bytearray(1024)
    struct.pack_into("<I", content, 4, blocks & 0xFFFFFFFF)
    struct.pack_into("<I", content, 0x18, 2)
    struct.pack_into("<I", content, 0x2C, superblock.was_mounted)
    struct.pack_into("<HH", content, 0x38, 0xEF53, superblock.state)
    struct.pack_into("<I", content, 0x60, 0x80)
    struct.pack_into("<I", content, 0x150, blocks >> 32)
    content[0x68:0x78] = superblock.id.bytes
    content[0x78:0x88] = superblock.label.encode().ljust(16, b"\0")
    _write(file, 1024, bytes(content))


def clear(file: Path) -> None:
    """The first 4 KiB as mkfs leaves them before it writes."""
    _write(file, 0, bytes(4096))


def _is_ext4(head: bytes) -> bool:
    return head[1024 + 0x38 : 1024 + 0x3A] == b"\x53\xef"


def _is_xfs(head: bytes) -> bool:
    return head.startswith(b"XFSB")


def _head(file: Path) -> bytes:
    with file.open("rb") as disk:
        return disk.read(4096).ljust(4096, b"\0")


def _write(file: Path, offset: int, content: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.pwrite(descriptor, content, offset)
    finally:
        os.close(descriptor)
