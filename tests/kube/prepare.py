"""`python -m tests.kube.prepare TARGET PROGRAM...`: says what `make TARGET` lacks here, and builds what it needs, seen.

Before pytest, which would hide a build of a quarter of an hour. Status 0: go on (the tests skip themselves on a machine
that cannot run them); 1: in CI something is missing, or a build failed.
"""

import os
import sys

from tests.kube import place
from tests.kube.needs import missing
from tests.kube.toolchain import BENCH, ToolsMissing, toolchain


def main(target: str, further: tuple[str, ...]) -> int:
    """The exit status."""
    programs = (*BENCH, *further)
    lacking = missing(programs)
    if lacking:
        in_ci = os.environ.get("CI") == "true"
        say(f"make {target} " + ("needs:" if in_ci else "is skipped on this machine; it needs:"))
        for line in lacking:
            say(f"  {line}")
        return 1 if in_ci else 0
    for folder in place.clear_abandoned():
        say(f"Removed what an earlier, killed run left in {folder}.")
    try:
        toolchain().build(programs)
    except ToolsMissing as error:
        say(str(error))
        return 1
    return 0


def say(text: str) -> None:
    """One line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], tuple(sys.argv[2:])))
