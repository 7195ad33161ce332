"""The kubelet's plugin registration (package pluginregistration, version v1), as node-driver-registrar serves it.

`python -m tests.kube.registrar --socket S --driver NAME --endpoint CSI_SOCKET`: the kubelet finds the socket in its
`plugins_registry`, asks for the driver's name and endpoint, and tells how it went; after a refusal this process ends,
so that being started again makes the kubelet try again. The messages are so small that they are built here.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "pluginregistration.Registration"
_STRING, _BOOL = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGES: dict[str, dict[str, tuple[int, int]]] = {
    "InfoRequest": {},
    "PluginInfo": {"type": (1, _STRING), "name": (2, _STRING), "endpoint": (3, _STRING), "supported_versions": (4, 0)},
    "RegistrationStatus": {"plugin_registered": (1, _BOOL), "error": (2, _STRING)},
    "RegistrationStatusResponse": {},
}


def message_types() -> dict[str, Any]:
    """The four message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(name="pluginregistration.proto", package="pluginregistration")
    file.syntax = "proto3"
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = kind == 0
            label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
            message.field.add(
                name=field, number=number, type=_STRING if repeated else kind,
                label=descriptor_pb2.FieldDescriptorProto.Label.Value(label),
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"pluginregistration.{name}"))
        for name in _MESSAGES
    }


async def serve(socket: Path, driver: str, endpoint: str) -> int:
    """Serves until SIGTERM (0) or until the kubelet has refused the driver (1)."""
    types = message_types()
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def finish(status: int) -> None:
        if not done.done():
            done.set_result(status)

    async def get_info(_request: Any, _context: Any) -> Any:
        return types["PluginInfo"](type="CSIPlugin", name=driver, endpoint=endpoint, supported_versions=["1.0.0"])

    async def notify(request: Any, _context: Any) -> Any:
        sys.stdout.write(f"registered: {request.plugin_registered} {request.error}\n")
        if not request.plugin_registered:
            asyncio.get_running_loop().call_later(0.5, finish, 1)
        return types["RegistrationStatusResponse"]()

    def handler(call: Any, request: str) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=types[request].FromString, response_serializer=lambda m: m.SerializeToString()
        )

    handlers = {
        "GetInfo": handler(get_info, "InfoRequest"),
        "NotifyRegistrationStatus": handler(notify, "RegistrationStatus"),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, finish, 0)
    status = await done
    await server.stop(0.5)
    return status


def main() -> int:
    """Reads the flags and serves."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.registrar", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--endpoint", required=True)
    args = parser.parse_args()
    args.socket.unlink(missing_ok=True)
    try:
        return asyncio.run(serve(args.socket, args.driver, args.endpoint))
    finally:
        args.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
