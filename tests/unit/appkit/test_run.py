"""The life of a real process: signals, deadlines, exit statuses."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROGRAM = """
import asyncio, sys
from appkit import logs
from appkit.background import Background
from appkit.errors import Unavailable
from appkit.health import Health
from appkit.run import run_service
from appkit.settings import SettingsError

logs.configure("text", "info", sys.stdout)
logs.register_secret("planted-secret")
health = Health()

async def main(stop):
    print("up", flush=True)
    {body}

status = run_service(main, drain_s={drain_s})
print("status", status, flush=True)
sys.exit(status)
"""


@contextmanager
def process(body: str, *, drain_s: float = 5) -> Iterator[subprocess.Popen[str]]:
    source = PROGRAM.format(body=body.replace("\n", "\n    "), drain_s=drain_s)
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            yield child
        finally:
            child.kill()


def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    # Not communicate(): it reads past what readline() has already taken into its buffer.
    assert child.stdout is not None
    assert child.stderr is not None
    out, error = child.stdout.read(), child.stderr.read()
    return child.wait(10), out, error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_work_finish_in_order(number: signal.Signals) -> None:
    body = """
await stop.wait()
health.drain()
print("ready", health.ready(), flush=True)
await asyncio.sleep(0.05)
print("finished", flush=True)
"""
    with process(body) as child:
        child.send_signal(number)
        status, out, error = ended(child)
    assert (status, error) == (0, "")
    assert out.splitlines()[1:] == ["ready (False, ['shutting down'])", "finished", "status 0"]
    assert f"signal={number.name}" in out


def test_work_that_does_not_finish_is_cancelled_at_the_deadline() -> None:
    body = """
try:
    await asyncio.sleep(60)
finally:
    print("cancelled", flush=True)
"""
    with process(body, drain_s=0.1) as child:
        child.send_signal(signal.SIGTERM)
        status, out, error = ended(child)
    assert (status, error) == (1, "")
    assert "not finished within the drain deadline" in out
    assert out.endswith("cancelled\nstatus 1\n")


def test_a_second_signal_ends_the_process_at_once() -> None:
    body = """
await stop.wait()
print("draining", flush=True)
await asyncio.sleep(60)
"""
    with process(body, drain_s=60) as child:
        assert child.stdout is not None
        child.send_signal(signal.SIGTERM)
        while child.stdout.readline() != "draining\n":
            pass
        child.send_signal(signal.SIGTERM)
        status, out, _ = ended(child)
    assert status == 1
    assert "second signal; exiting at once" in out
    assert "status" not in out


def test_settings_errors_are_a_list_without_a_traceback() -> None:
    body = 'raise SettingsError(["a.yaml: x: unknown key", "a.yaml: y: planted-secret is required"])'
    with process(body) as child:
        status, out, error = ended(child)
    assert status == 2
    assert error == "the settings are wrong:\n  - a.yaml: x: unknown key\n  - a.yaml: y: [redacted] is required\n"
    assert "Traceback" not in out + error


def test_a_known_error_is_one_line_and_a_bug_has_its_traceback() -> None:
    with process('raise Unavailable("no API server")') as child:
        status, out, error = ended(child)
    assert (status, error) == (1, "")
    assert "stopped: no API server" in out
    assert "Traceback" not in out
    with process('raise KeyError("planted-secret")') as child:
        status, out, error = ended(child)
    assert (status, error) == (1, "")
    assert "Traceback" in out
    assert "planted-secret" not in out


def test_the_unexpected_end_of_a_background_task_ends_the_process() -> None:
    body = """
async def poll():
    await asyncio.sleep(0.01)
    raise RuntimeError("poller bug")
async with Background() as background:
    background.start("poller", poll())
    await background.run_until(stop)
"""
    with process(body) as child:
        status, out, error = ended(child)
    assert (status, error) == (1, "")
    assert "background task ended unexpectedly task=poller" in out
    assert "stopped: background task 'poller' ended unexpectedly" in out


def test_returning_is_success() -> None:
    with process("return") as child:
        assert ended(child)[0] == 0
