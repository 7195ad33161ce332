"""The only place that starts processes.

Every command has a time-out, runs in a process group of its own and is killed as a group; its output is capped. There
is no shell, and no secret ever belongs in `argv` (it can be read in /proc by anybody): secrets go through `stdin`.
This module must not know what the commands mean.
"""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from appkit.errors import Unavailable

OUTPUT_LIMIT_BYTES = 64 * 1024
"""Kept per stream; the rest is read and dropped, so that a chatty command neither blocks nor fills the memory."""

REAP_TIMEOUT_S = 5.0
"""How long to wait for a killed command. One stuck in the kernel on a dead disk outlives SIGKILL; we do not."""

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True)
class Completed:
    """A command that ended by itself with an exit code the caller expected."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class CommandFailed(Unavailable):
    """A command ended with an exit code that was not expected, or could not be started.

    Unavailable, because what the host refuses now it may grant later, and because a caller of CSI must not conclude
    that nothing happened.
    """

    def __init__(self, argv: Sequence[str], returncode: int, output: str) -> None:
        super().__init__(f"`{shlex.join(argv)}` failed with exit code {returncode}: {output.strip() or '(no output)'}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.output = output


class CommandTimeout(Unavailable):
    """A command did not end in time and was killed; what it did until then is not known."""

    def __init__(self, argv: Sequence[str], timeout_s: float, *, reaped: bool) -> None:
        left = "" if reaped else "; it did not die of SIGKILL and is left behind, stuck in the kernel"
        super().__init__(f"`{shlex.join(argv)}` did not end within {timeout_s:g} s and was killed{left}")
        self.argv = tuple(argv)


class Runner(Protocol):
    """Starts a command and waits for its end."""

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", expect: Container[int] = (0,)
    ) -> Completed:
        """Run `argv` to its end.

        Raises CommandFailed for an exit code outside `expect` (127 also stands for "no such program"), CommandTimeout
        after `timeout_s` seconds. When the caller is cancelled, the command is killed before the cancellation goes on.
        """
        ...


class ProcessRunner:
    """The real `Runner`."""

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", expect: Container[int] = (0,)
    ) -> Completed:
        """See `Runner.run`."""
        starting = asyncio.ensure_future(_start(argv, stdin))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Cancelled itself, the start would kill the command alone and wait for all that the command has started.
            with contextlib.suppress(CommandFailed):
                await _kill_group(await starting)
            raise
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await _communicate(process, stdin)
        except TimeoutError:
            raise CommandTimeout(argv, timeout_s, reaped=await _kill_group(process)) from None
        except BaseException:
            await asyncio.shield(_kill_group(process))
            raise
        returncode = process.returncode if process.returncode is not None else -1
        if returncode not in expect:
            raise CommandFailed(argv, returncode, stderr if stderr.strip() else stdout)
        return Completed(tuple(argv), returncode, stdout, stderr)


async def _start(argv: Sequence[str], stdin: bytes) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(  # noqa: TID251 - the one place
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(argv, 127, f"cannot be started: {error}") from error


async def _communicate(process: asyncio.subprocess.Process, stdin: bytes) -> tuple[str, str]:
    async def feed() -> None:
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await process.stdin.drain()
            process.stdin.close()

    _, stdout, stderr, _ = await asyncio.gather(
        feed(), _read_capped(process.stdout), _read_capped(process.stderr), process.wait()
    )
    return stdout, stderr


async def _read_capped(stream: asyncio.StreamReader | None) -> str:
    if stream is None:
        return ""
    kept = bytearray()
    dropped = 0
    while chunk := await stream.read(16 * 1024):
        room = OUTPUT_LIMIT_BYTES - len(kept)
        kept += chunk[:room]
        dropped += max(0, len(chunk) - room)
    text = kept.decode("utf-8", errors="replace")
    return f"{text}\n({dropped} bytes dropped)" if dropped else text


async def _kill_group(process: asyncio.subprocess.Process) -> bool:
    """Kill the command and everything it started. Answers whether it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(REAP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        return False
    return True
