"""`python -m tests.bench`: measure, print, write build/bench.json; status 1 when a goal for requests is missed."""

import asyncio
import sys
from pathlib import Path

from tests.bench import csi_controller
from tests.bench.figure import write

BUILD = Path("build/bench.json")


def main() -> int:
    """Run it."""
    figures = asyncio.run(csi_controller.figures())
    write(figures, BUILD)
    sys.stdout.write("".join(f"{figure}\n" for figure in figures))
    return 0 if all(figure.ok for figure in figures if figure.is_count) else 1


if __name__ == "__main__":
    sys.exit(main())
