"""How a bench ends: by Ctrl-C, killed at several moments, begun anew; nothing of it is left on the machine."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.bench import EXAMPLES
from tests.kube.place import NUMBERS, Place, clear_abandoned
from tests.kube.programs import wait_until
from tests.kube.space import Space
from tests.kube.toolchain import toolchain

PLACE = Place(NUMBERS[-1])
_started: "list[subprocess.Popen[bytes]]" = []


@pytest.fixture
def second(space: Space, tmp_path: Path) -> Iterator[Path]:
    """The output of a second bench, started beside the first; both may run at once."""
    output = tmp_path / "output"
    yield output
    # Only a test that failed has left one of them running; unwaited, it would make another test fail too.
    while _started:
        process = _started.pop()
        process.kill()
        process.wait()
    left = PLACE.remove()
    assert not left, left


def start(output: Path) -> "subprocess.Popen[bytes]":
    """`make kube`, in a place of the test's own."""
    with output.open("wb") as file:
        command = [sys.executable, "-m", "tests.kube", "--place", str(PLACE.number)]
        _started.append(subprocess.Popen(command, stdout=file, stderr=file))
    return _started[-1]


def wait_said(output: Path, text: str) -> None:
    wait_until(f"{text!r} is said", lambda: text in output.read_text(), 90)


def run_pod() -> None:
    """Lets a Pod use a volume, so that there is something to be left."""
    kubectl = [str(toolchain().path("kubectl")), f"--kubeconfig={PLACE.folder}/kubeconfig"]
    subprocess.run([*kubectl, "apply", "-f", str(EXAMPLES / "claim-and-pod.yaml")], check=True)
    subprocess.run([*kubectl, "wait", "--for=condition=Ready", "pod/pg-0", "--timeout=60s"], check=True)


@pytest.mark.parametrize("moment", ["control plane after", "Ctrl-C ends it"])
def test_killed(second: Path, moment: str) -> None:
    process = start(second)
    wait_said(second, moment)
    if moment.startswith("Ctrl-C"):
        run_pod()
        assert {line.split()[0] for line in PLACE.describe()} >= {"process", "mount", "loop", "cgroup", "network"}
    process.kill()
    process.wait()

    assert str(PLACE.folder) in clear_abandoned()
    assert PLACE.describe() == []


def test_begun_anew_and_ended_by_ctrl_c(second: Path) -> None:
    first = start(second)
    wait_said(second, "control plane after")
    again = start(second.with_name("again"))
    assert first.wait(60) == 0
    wait_said(second.with_name("again"), "Ctrl-C ends it")
    run_pod()
    again.send_signal(signal.SIGINT)
    assert again.wait(60) == 0
    assert PLACE.describe() == []
