"""The real system calls, as far as an ordinary user can make them."""

import asyncio
import os
from pathlib import Path

import pytest

from appkit.errors import Unavailable
from csi_node.host.kernel import LinuxKernel, NoAnswer


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


async def test_what_is_no_block_device(tmp_path: Path) -> None:
    kernel = LinuxKernel()
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    assert await kernel.block_device_number(file) is None
    assert await kernel.block_device_number(tmp_path / "nothing") is None
    assert await kernel.block_device_number(Path("/dev/null")) is None
    with pytest.raises(Unavailable, match="is not a block device"):
        await kernel.read(file, 0, 10)
    with pytest.raises(Unavailable, match="cannot open"):
        await kernel.read(tmp_path / "nothing", 0, 10)
    assert names(tmp_path) == ["file"]


async def test_usage(tmp_path: Path) -> None:
    usage = await LinuxKernel().usage(tmp_path)
    assert 0 < usage.used_bytes < usage.total_bytes
    with pytest.raises(Unavailable, match="No such file"):
        await LinuxKernel().usage(tmp_path / "nothing")


async def test_attribute_is_written_and_never_created(tmp_path: Path) -> None:
    attribute = tmp_path / "rescan"
    with pytest.raises(Unavailable, match="No such file"):
        await LinuxKernel().write_attribute(attribute, "1\n")
    assert names(tmp_path) == []
    attribute.touch()
    await LinuxKernel().write_attribute(attribute, "1\n")
    assert attribute.read_text() == "1\n"


async def test_hanging_call_costs_one_thread_and_ends(tmp_path: Path) -> None:
    """A FIFO without a reader plays the disk that does not answer: opening it for writing blocks."""
    kernel = LinuxKernel(timeout_s=0.05)
    fifo = tmp_path / "rescan"
    os.mkfifo(fifo)
    with pytest.raises(NoAnswer, match=r"did not end within 0\.05 s"):
        await kernel.write_attribute(fifo, "1\n")
    with pytest.raises(NoAnswer, match="has not ended since an earlier call"):
        await kernel.write_attribute(fifo, "1\n")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with asyncio.timeout(5):
            while kernel._hanging:  # noqa: ASYNC110 - the thread tells nobody
                await asyncio.sleep(0.005)
        await kernel.write_attribute(fifo, "2\n")
        assert os.read(reader, 10) == b"1\n2\n"
    finally:
        os.close(reader)
