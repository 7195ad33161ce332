"""One CSI call from the command line: `python -m tests.demo.rpc SOCKET METHOD [JSON]`. For a demo left with KEEP=1."""

import argparse
import asyncio
import sys
from pathlib import Path

import grpc
from google.protobuf import json_format

from csikit.pb import csi_pb2
from tests.demo.csi_door import CsiDoor


async def call(socket: Path, method: str, text: str) -> int:
    """Prints the answer as JSON, or the refusal; 1 after a refusal."""
    request_class = getattr(csi_pb2, f"{method}Request", None)
    if request_class is None:
        sys.stderr.write(f"CSI has no call {method}\n")
        return 2
    try:
        request = json_format.Parse(text, request_class(), ignore_unknown_fields=False)
    except json_format.ParseError as error:
        sys.stderr.write(f"not a {method}Request: {error}\n")
        return 2
    door = CsiDoor(socket.name, socket)
    try:
        outcome = await door.call(method, request)
    finally:
        await door.aclose()
    if outcome.code is not grpc.StatusCode.OK:
        sys.stderr.write(f"{outcome.code.name}: {outcome.details}\n")
        return 1
    sys.stdout.write(json_format.MessageToJson(outcome.response, preserving_proto_field_name=True) + "\n")
    return 0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo.rpc", description=__doc__)
    parser.add_argument("socket", type=Path)
    parser.add_argument("method", help="NodeGetInfo, ControllerPublishVolume, …")
    parser.add_argument("json", nargs="?", default="{}", help="the request's fields, as in csi.proto")
    arguments = parser.parse_args()
    return asyncio.run(call(arguments.socket, arguments.method, arguments.json))


if __name__ == "__main__":
    sys.exit(main())
