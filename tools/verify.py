"""Checks what no test sees: files that are generated, compiled or tracked must be what they claim to be.

Each check answers with the problems it found. It asks no network and changes nothing.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from tools import compile_requirements

ROOT = Path(__file__).resolve().parent.parent
# In patterns, `[.]` keeps this file from matching itself.
REGISTRY = re.compile(
    r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs[.]org|crates[.]io|proxy[.]golang[.]org|repo1?[.]maven[.]|deb[.]debian[.]org"
)
# Somebody's home or work folder, or a pyenv in it.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(home|root|Users|work|workspace)/\w|[.]pyenv[/]")
SMELL_LINES = 400
FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.([a-z]+)\.md")


def tracked() -> Iterator[Path]:
    """Every file of the repository, those not yet added included; in an unpacked archive, every file not made here."""
    # The clone may belong to another user than the one who checks it.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        listing = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if not is_made_here(path)]
    for name in listing:
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink():
            yield path


def is_made_here(path: Path) -> bool:
    """Whether a make target made the file: environments, caches, build results."""
    top, *_ = path.relative_to(ROOT).parts
    return top.startswith((".venv", ".git")) or top in {"build", "dist"} or "cache" in path.as_posix()


def generated_code() -> list[str]:
    """csikit.pb against proto/."""
    fresh = subprocess.run([sys.executable, "tools/gen_proto.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    return (
        [] if fresh.returncode == 0 else [line for line in (fresh.stdout + fresh.stderr).splitlines() if line.strip()]
    )


def outside_addresses() -> list[str]:
    """Package registries and paths of somebody's machine in tracked files."""
    found: list[str] = []
    for path in tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for pattern, what in ((REGISTRY, "a package registry's address"), (MACHINE_PATH, "a path of one machine")):
                if pattern.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {what}")
    return found


def news_fragments() -> list[str]:
    """Names, kinds and text of changes/, and whether the changelog can be built from them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = {kind["directory"] for kind in project["tool"]["towncrier"]["type"]}
    found: list[str] = []
    for path in sorted((ROOT / "changes").iterdir()):
        if path.name in {"README.md", ".gitignore"}:
            continue
        named = FRAGMENT.fullmatch(path.name)
        if not named:
            found.append(f"changes/{path.name}: the name must be <issue or +word>.<kind>.md")
        elif named[2] not in kinds:
            found.append(f"changes/{path.name}: unknown kind {named[2]!r}; one of {', '.join(sorted(kinds))}")
        elif not path.read_text(encoding="utf-8").strip():
            found.append(f"changes/{path.name}: is empty")
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if draft.returncode:
        found.append(f"the changelog cannot be built: {draft.stderr.strip()}")
    return found


def large_modules() -> list[str]:
    """Modules with probably more than one reason to change."""
    found: list[str] = []
    for top in ("libs", "services", "tools"):
        for path in sorted((ROOT / top).rglob("*.py")):
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > SMELL_LINES and "/pb/" not in path.as_posix():
                found.append(f"{path.relative_to(ROOT)}: {lines} lines")
    return found


CHECKS: dict[str, Callable[[], list[str]]] = {
    "generated code is fresh": generated_code,
    "pins are compiled from pyproject.toml": compile_requirements.problems,
    "no registry address, no machine path": outside_addresses,
    "news fragments": news_fragments,
}


def main() -> int:
    """Runs every check; 1 when one failed."""
    failed = False
    for name, check in CHECKS.items():
        problems = check()
        print(f"{'FAILED' if problems else 'ok':7}{name}")
        for problem in problems:
            print(f"       {problem}")
        failed |= bool(problems)
    for module in large_modules():
        print(f"note   over {SMELL_LINES} lines, worth splitting: {module}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
