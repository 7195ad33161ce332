"""What the pages say can be typed: make targets, flags, settings, and links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from appkit.settings import load
from pvekit.settings import CloudConfig
from tests.packaging.conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = {"pvecloud-csi-controller": "csi_controller", "pvecloud-csi-node": "csi_node", "pvecloud-ccm": "ccm"}


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    # Inline code that begins with make, and lines of shell blocks that do.
    named = re.findall(
        r"(?:`|^(?:sudo )?)make ([a-z][a-z0-9 -]*[a-z0-9])", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    words = {word for line in named for word in line.split()}
    assert words <= targets, f"{page.name} names make targets that do not exist: {sorted(words - targets)}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_folder_of_the_readme_exists() -> None:
    for folder in re.findall(r"^\| `((?:libs|services)/[a-z_]+)`", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_the_readmes_flags_exist() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    for program, module in MODULES.items():
        (line,) = re.findall(rf"^{program} .*$", text, re.MULTILINE)
        helped = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
        for flag in re.findall(r"--[a-z-]+", line):
            assert flag in helped.stdout, f"{program} has no {flag}"


def test_the_readmes_cloud_config_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL)
    assert yaml.safe_load(example)["clusters"]
    file = tmp_path / "cloud-config.yaml"
    file.write_text(example, encoding="utf-8")
    assert load(CloudConfig, file=file).clusters[0].region == "cluster-1"
