"""Starting this repository's own Python programs with this interpreter."""

import sys
from collections.abc import Mapping

from tests.kube.programs import Program, Programs


def start_module(
    programs: Programs,
    name: str,
    module: str,
    *arguments: str,
    restart: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Program:
    """`python -m module arguments`."""
    return programs.start(name, sys.executable, "-m", module, *arguments, restart=restart, environment=environment)
