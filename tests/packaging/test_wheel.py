"""The wheel as an image gets it: built here, put into an empty environment with the pins of one extra, and run."""

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appkit.version import __version__
from tests.packaging.conftest import ROOT
from tools.bootstrap import pip_environment

# requirements file -> the service whose image installs it
SERVICES = {"controller": "pvecloud-csi-controller", "node": "pvecloud-csi-node", "ccm": "pvecloud-ccm"}
PACKAGES = {"appkit", "pvekit", "kubekit", "csikit", "csi_controller", "csi_node", "ccm"}
# Per extra: what must not be in its environment.
ABSENT = {"controller": ("pyudev",), "node": ("kubernetes", "aiohttp"), "ccm": ("grpc", "pyudev")}


def run(*command: str, env: dict[str, str] | None = None, timeout_s: float = 300) -> str:
    """Output of a program that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=env, cwd="/", check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def environments(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An empty environment for each extra, with its pins and the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environments")

    def install(extra: str) -> Path:
        venv = folder / extra
        run(sys.executable, "-m", "venv", "--without-pip", str(venv))
        pip = (sys.executable, "-m", "pip", "--python", str(venv), "install", "--quiet")
        environment = pip_environment(Path(sys.executable))
        pins = ROOT / "requirements" / f"{extra}.txt"
        run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(pins), env=environment)
        run(*pip, "--no-deps", "--no-index", str(wheel), env=environment)
        return venv

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SERVICES, pool.map(install, SERVICES), strict=True))


def bare_environment() -> dict[str, str]:
    """No PYTHONPATH, nothing of the development environment."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8"}


def test_the_wheel_holds_what_is_shipped_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == PACKAGES | {f"pvecloud-{__version__}.dist-info"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert "csikit/pb/csi_pb2.py" in names


@pytest.mark.parametrize("extra", SERVICES)
def test_a_service_runs_from_its_extra_alone(environments: dict[str, Path], extra: str) -> None:
    command = str(environments[extra] / "bin" / SERVICES[extra])
    assert __version__ in run(command, "--version", env=bare_environment())
    assert "--log-level" in run(command, "--help", env=bare_environment())


@pytest.mark.parametrize("extra", SERVICES)
def test_the_pins_are_complete_and_small(environments: dict[str, Path], extra: str) -> None:
    venv = environments[extra]
    run(sys.executable, "-m", "pip", "--python", str(venv), "check", env=pip_environment(Path(sys.executable)))
    for module in ABSENT[extra]:
        probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is not None)"
        run(str(venv / "bin" / "python"), "-c", probe, env=bare_environment())
