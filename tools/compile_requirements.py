"""Compiles the pinned requirements of each image and of development from pyproject.toml.

Every file carries hashes and no index address, so that it installs from any mirror. Its first line has a fingerprint of
what it was compiled from; `tools.verify` compares it without asking an index.
"""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# file -> the part of pyproject.toml it pins
TARGETS: Mapping[str, tuple[str, ...]] = {
    "controller.txt": ("--extra", "controller"),
    "node.txt": ("--extra", "node"),
    "ccm.txt": ("--extra", "ccm"),
    "dev.txt": ("--all-extras", "--group", "dev"),
}


def fingerprint(project: Mapping[str, Any]) -> str:
    """Of every table that decides what is installed."""
    parts = {
        "dependencies": project["project"]["dependencies"],
        "extras": project["project"]["optional-dependencies"],
        "groups": project["dependency-groups"],
        "python": project["project"]["requires-python"],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def head_line(mark: str) -> str:
    """First line of a compiled file."""
    return f"# Compiled from pyproject.toml by `make requirements`; inputs {mark}\n"


def load_project() -> dict[str, Any]:
    """The project file as data."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def problems() -> list[str]:
    """What is stale, one line each."""
    expected = head_line(fingerprint(load_project()))
    found: list[str] = []
    for name in TARGETS:
        path = ROOT / "requirements" / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not text.startswith(expected):
            found.append(f"requirements/{name} is older than pyproject.toml; run `make requirements`")
        if "://" in text or "index-url" in text or "find-links" in text:
            found.append(f"requirements/{name} contains an address; compile it with `make requirements`")
    return found


def compile_all(upgrade: bool) -> int:
    """Runs uv once for each file; keeps present pins unless `upgrade`."""
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    environment = {key: value for key, value in os.environ.items() if key not in {"PIP_FIND_LINKS", "UV_FIND_LINKS"}}
    head = head_line(fingerprint(load_project()))
    for name, selection in TARGETS.items():
        path = ROOT / "requirements" / name
        command = [str(uv), "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
        command += ["--generate-hashes", "--no-header", "--no-emit-package", "pvecloud", "--quiet"]
        command += [*selection, "--output-file", str(path), *(["--upgrade"] if upgrade else [])]
        if status := subprocess.run(command, cwd=ROOT, env=environment).returncode:
            print(f"requirements/{name} could not be compiled; uv's own text is above", file=sys.stderr)
            return status
        path.write_text(head + path.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"requirements/{name}: compiled")
    return 0


if __name__ == "__main__":
    sys.exit(compile_all(upgrade="--upgrade" in sys.argv[1:]))
