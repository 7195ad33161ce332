"""`python -m tests.pvesim --config world.yaml`: the simulator as a server of its own."""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.pvesim.blocks import BlockBackend, NoBlocks
from tests.pvesim.hostblocks import LoopDevices, SparseFiles
from tests.pvesim.release import RELEASES
from tests.pvesim.server import SimServer, ready_document
from tests.pvesim.worldfile import build_world, read_world
from tests.pvesim.worlds import three_hosts_dict


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.pvesim", description=__doc__)
    parser.add_argument("--config", type=Path, help="world file (YAML); without it the three hosts of worlds.py")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port of the first node; 0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="written once all ports listen: JSON with url, urls, ca_file")
    parser.add_argument("--state-dir", type=Path, help="where the CA and volumes lie; a temporary directory otherwise")
    parser.add_argument("--clock-scale", type=float, help="so many of the world's seconds in one real second")
    parser.add_argument("--release", choices=sorted(RELEASES), help="which release of Proxmox VE; the newest otherwise")
    parser.add_argument("--blocks", choices=["none", "files", "loop"], default="none")
    return parser


def _blocks(kind: str, state_dir: Path) -> BlockBackend:
    match kind:
        case "loop":
            return LoopDevices(state_dir)
        case "files":
            return SparseFiles(state_dir)
        case _:
            return NoBlocks()


async def _serve(args: argparse.Namespace, state_dir: Path) -> None:
    raw = dict(read_world(args.config) if args.config else three_hosts_dict())
    chosen = {"clock_scale": args.clock_scale, "release": args.release}
    raw |= {key: value for key, value in chosen.items() if value is not None}
    server = SimServer(build_world(raw, blocks=_blocks(args.blocks, state_dir)), state_dir)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await server.start(host=args.host, port=args.port)
        document = ready_document(server)
        if args.ready_file:
            part = args.ready_file.with_suffix(".part")
            part.write_text(document + "\n", encoding="utf-8")
            part.replace(args.ready_file)
        sys.stdout.write(document + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await server.aclose()


def main() -> int:
    """Run until SIGTERM or SIGINT."""
    args = _parser().parse_args()
    if args.state_dir:
        args.state_dir.mkdir(parents=True, exist_ok=True)
        asyncio.run(_serve(args, args.state_dir))
        return 0
    with tempfile.TemporaryDirectory(prefix=f"pvesim-{os.getpid()}-") as temporary:
        asyncio.run(_serve(args, Path(temporary)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
