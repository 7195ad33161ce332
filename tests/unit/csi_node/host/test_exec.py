"""With real processes: the runner's promises are about them."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from csi_node.host.exec import OUTPUT_LIMIT_BYTES, CommandFailed, CommandTimeout, ProcessRunner


def is_running(pid: int) -> bool:
    """A process that was killed but not yet reaped by init does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def find_number(file: Path) -> int:
    """The number in a file; 0 while there is none."""
    return int(file.read_text().strip() or 0) if file.exists() else 0


async def written(file: Path) -> int:
    async with asyncio.timeout(5):
        while not (number := find_number(file)):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    return number


async def ended(pid: int) -> None:
    """A killed process takes a moment to be gone, and only its parent is told."""
    async with asyncio.timeout(5):
        while is_running(pid):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def test_output_exit_code_and_input() -> None:
    runner = ProcessRunner()
    done = await runner.run(["sh", "-c", "cat; echo oops >&2; exit 3"], timeout_s=5, stdin=b"secret", expect=(0, 3))
    assert (done.returncode, done.stdout, done.stderr) == (3, "secret", "oops\n")
    with pytest.raises(CommandFailed, match=r"`sh -c 'echo oops >&2; exit 3'` failed with exit code 3: oops") as caught:
        await runner.run(["sh", "-c", "echo oops >&2; exit 3"], timeout_s=5)
    assert caught.value.returncode == 3


async def test_input_that_nobody_reads() -> None:
    await ProcessRunner().run(["true"], timeout_s=5, stdin=bytes(1_000_000))


async def test_no_such_program() -> None:
    with pytest.raises(CommandFailed, match="cannot be started") as caught:
        await ProcessRunner().run(["no-such-program"], timeout_s=5)
    assert caught.value.returncode == 127


async def test_environment_is_plain() -> None:
    os.environ["LEAK"] = "1"
    try:
        done = await ProcessRunner().run(["env"], timeout_s=5)
    finally:
        del os.environ["LEAK"]
    assert "LEAK" not in done.stdout
    assert "LC_ALL=C" in done.stdout


async def test_output_is_capped_and_the_command_not_blocked() -> None:
    done = await ProcessRunner().run(["head", "-c", "1000000", "/dev/zero"], timeout_s=5)
    assert done.stdout.startswith("\0" * OUTPUT_LIMIT_BYTES)
    assert done.stdout.endswith(f"({1_000_000 - OUTPUT_LIMIT_BYTES} bytes dropped)")


async def test_time_out_kills_the_whole_group(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 60 & echo $! > {child}; wait"
    with pytest.raises(CommandTimeout, match=r"did not end within 0\.3 s and was killed"):
        await ProcessRunner().run(["sh", "-c", script], timeout_s=0.3)
    await ended(await written(child))


async def test_cancelled_caller_leaves_no_process(tmp_path: Path) -> None:
    child = tmp_path / "child"
    call = asyncio.create_task(ProcessRunner().run(["sh", "-c", f"sleep 60 & echo $! > {child}; wait"], timeout_s=30))
    pid = await written(child)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await call
    await ended(pid)


@pytest.mark.parametrize("turns", range(6))
async def test_cancelled_at_any_moment_of_the_start(tmp_path: Path, turns: int) -> None:
    """The loop makes a process in several turns; the command has started others before the last of them."""
    child = tmp_path / "child"
    call = asyncio.create_task(ProcessRunner().run(["sh", "-c", f"sleep 60 & echo $! > {child}; wait"], timeout_s=30))
    for _ in range(turns):
        await asyncio.sleep(0)
    until = time.monotonic() + 0.2
    while turns > 1 and not find_number(child) and time.monotonic() < until:
        pass  # the command goes on while the loop stands still
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await call
    if pid := find_number(child):
        await ended(pid)
