"""CSI calls over real unix sockets, as the sidecars and the kubelet make them. Must not know the story."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from csikit.pb import csi_pb2_grpc
from tests.demo.processes import DemoError

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Outcome:
    """How one call ended; `response` is None exactly when `code` is not OK."""

    method: str
    code: grpc.StatusCode
    seconds: float
    response: Any = None
    details: str = ""


class CsiDoor:
    """One service's socket."""

    def __init__(self, name: str, socket: Path) -> None:
        self.name = name
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=[("grpc.enable_http_proxy", 0)])
        self._stubs: Sequence[Any] = [
            stub(self._channel)
            for stub in (csi_pb2_grpc.IdentityStub, csi_pb2_grpc.ControllerStub, csi_pb2_grpc.NodeStub)
        ]

    async def call(self, method: str, request: Message) -> Outcome:
        """Calls an RPC by its name; refusals are outcomes, not errors."""
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        started = time.monotonic()
        try:
            response = await getattr(stub, method)(request, timeout=TIMEOUT_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return Outcome(method, error.code(), time.monotonic() - started, details=error.details() or "")
        return Outcome(method, grpc.StatusCode.OK, time.monotonic() - started, response)

    async def must(self, method: str, request: Message) -> Any:
        """Calls an RPC that has to succeed, outside any step; raises DemoError otherwise."""
        outcome = await self.call(method, request)
        if outcome.code is not grpc.StatusCode.OK:
            raise DemoError(f"{self.name}: {method} answered {outcome.code.name}: {outcome.details}", self.name)
        return outcome.response

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._channel.close()
