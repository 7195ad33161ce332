"""The fake API server as a process: `python -m tests.kubesim --port 0 --ready-file F --state seed.yaml`.

Writes its URL into the ready file once it listens; ends on SIGTERM or SIGINT.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import yaml

from appkit import logs
from appkit.run import run_service
from tests.kubesim.server import KubeSim


def read_state(path: Path) -> list[dict[str, Any]]:
    """Objects of a YAML file with one or more documents, Lists included."""
    objects: list[dict[str, Any]] = []
    for document in yaml.safe_load_all(path.read_text()):
        if document:
            objects += document["items"] if str(document.get("kind", "")).endswith("List") else [document]
    return objects


def kubeconfig(url: str) -> str:
    """A kubeconfig for the server, without credentials."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kubesim",
            "clusters": [{"name": "kubesim", "cluster": {"server": url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "kubesim", "context": {"cluster": "kubesim", "user": "nobody"}}],
        }
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubesim", description="A small fake Kubernetes API server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--state", type=Path, help="YAML file with the objects that exist at the start")
    parser.add_argument("--ready-file", type=Path, help="gets the URL once the server listens")
    parser.add_argument("--kubeconfig", type=Path, help="gets a kubeconfig for the server")
    parser.add_argument("--bookmark-s", type=float, default=60, help="seconds between bookmarks of a silent watch")
    arguments = parser.parse_args()
    logs.configure()

    async def serve(stop: asyncio.Event) -> None:
        sim = KubeSim(read_state(arguments.state) if arguments.state else (), bookmark_s=arguments.bookmark_s)
        url = await sim.start(host=arguments.host, port=arguments.port)
        if arguments.kubeconfig:
            arguments.kubeconfig.write_text(kubeconfig(url))
        if arguments.ready_file:
            # Whole or not at all: whoever waits for the file reads it at once.
            partial = arguments.ready_file.with_suffix(".partial")
            partial.write_text(url)
            partial.rename(arguments.ready_file)
        logs.get_logger("kubesim").info("listening", extra={"url": url})
        await stop.wait()
        await sim.aclose()

    return run_service(serve)


if __name__ == "__main__":
    sys.exit(main())
