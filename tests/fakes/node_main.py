"""The node service as a real process on a fake host: for demos and tests that have no root.

`python -m tests.fakes.node_main --fake-state DIR <flags of pvecloud-csi-node>`. Several nodes may share one DIR: the
filesystems' files lie in it, so a volume's data follows the volume from one fake machine to another.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from appkit.logs import configure
from appkit.run import run_service
from csi_node.__main__ import parser, read_settings
from csi_node.app import build
from csikit.handles import parse_node_id
from tests.fakes.runner import FakeHost


def main() -> int:
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--fake-state", type=Path, required=True, metavar="DIR")
    fake, rest = own.parse_known_args()
    arguments = parser().parse_args(rest)

    async def serve(stop: asyncio.Event) -> None:
        settings = read_settings(arguments, os.environ)
        configure(settings.log_format, settings.log_level)
        host = FakeHost(
            dev_root=settings.dev_root,
            sys_root=settings.sys_root,
            state=fake.fake_state / parse_node_id(settings.node_id).name,
            contents=fake.fake_state / "contents",
        )
        await build(settings, env=os.environ, runner=host, kernel=host).run(stop)

    return run_service(serve)


if __name__ == "__main__":
    sys.exit(main())
