"""A copy of the tree to plant mistakes in."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("libs", "services", "tests", "tools", "proto", "requirements", "changes")
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


class Tree:
    """A copy of the repository in which a test may write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def append(self, name: str, text: str) -> None:
        """Adds lines at the end of a file; the file must exist."""
        path = self.root / name
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Replaces text that must be there."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def run(self, *command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs a program in the copy; imports come from the copy too."""
        paths = os.pathsep.join(str(self.root / part) for part in ("libs", "services", "."))
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs this interpreter in the copy."""
        return self.run(sys.executable, *arguments)


@pytest.fixture
def copy_tree(tmp_path: Path) -> Callable[[], Tree]:
    """Makes a copy of the tree."""

    def make() -> Tree:
        root = tmp_path / "tree"
        for part in PARTS:
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy(ROOT / name, root / name)
        return Tree(root)

    return make
