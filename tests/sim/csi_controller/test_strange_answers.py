"""Each answer of each call, one after the other, is lost or replaced by something that Proxmox VE would not say.

For every RPC the points are enumerated: k counts all requests of the call, the index's background ones included. No
such answer may end in INTERNAL, nor in a success that is not true; and the call made again comes to the usual end.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import httpx
import pytest

from csikit.pb import csi_pb2
from pvekit.settings import ClusterSettings
from pvekit.tls import ssl_context
from tests.pvesim.worlds import three_hosts, three_hosts_dict
from tests.sim.csi_controller.scene import GIB, Scene, open_scene

Make = Callable[[httpx.Request], httpx.Response]

_OUR_FAULT = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def _body(status: int, content: bytes, reason: str = "", **headers: str) -> Make:
    extensions = {"reason_phrase": reason.encode()} if reason else {}
    return lambda _: httpx.Response(status, content=content, headers=headers, extensions=extensions)


def _cut(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)


def _null(request: httpx.Request) -> httpx.Response:
    if request.method == "DELETE":
        return _cut(request)  # null is how Proxmox VE says that a deletion was done
    return httpx.Response(200, content=b'{"data": null}')


def _never_packed(request: httpx.Request) -> httpx.Response:
    class Stream(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"this was never compressed"

    return httpx.Response(200, stream=Stream(), headers={"Content-Encoding": "gzip"}, request=request)


# What is answered, and whether Proxmox VE does what was asked nevertheless.
STRANGE: dict[str, tuple[Make, bool]] = {
    "cut-before": (_cut, False),
    "cut-after": (_cut, True),
    "unreachable": (_body(595, b"", "No route to host"), False),
    "timed-out": (_body(596, b"", "Connection timed out"), True),
    "proxys-502": (_body(502, b"<html><h1>502 Bad Gateway</h1></html>", "Bad Gateway"), False),
    "null": (_null, False),
    "empty": (_body(200, b'{"data": []}', "OK"), False),
    "text": (_body(200, b'{"data": "yes"}', "OK"), True),
    "never-packed": (_never_packed, True),
}


class Wire(httpx.AsyncBaseTransport):
    """The network; armed, it lies once, at the k-th request."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=ssl_context(settings))
        self._point = 0
        self._make: Make = _cut
        self._has_effect = False
        self.seen = 0
        self.lied_to = ""

    def arm(self, point: int, make: Make, has_effect: bool) -> None:
        """Lie to request number `point` from now."""
        self._point, self._make, self._has_effect = point, make, has_effect
        self.seen, self.lied_to = 0, ""

    def disarm(self) -> None:
        """Tell the truth from now on."""
        self._point = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request, or lie."""
        self.seen += 1
        if self.seen != self._point:
            return await self._inner.handle_async_request(request)
        self.lied_to = f"{request.method} {request.url.raw_path.decode()}"
        if self._has_effect:
            await (await self._inner.handle_async_request(request)).aread()
        return self._make(request)

    async def aclose(self) -> None:
        """Close the real connections."""
        await self._inner.aclose()


Call = Callable[[Scene], Awaitable[object]]
VOLUME = csi_pb2.Volume(volume_id="cluster-1/pve1/local-lvm/vm-9999-pvc-1")


async def _nothing(scene: Scene) -> None:
    return None


async def _create(scene: Scene) -> None:
    volume = await scene.create()
    assert volume.volume_id == VOLUME.volume_id
    assert volume.capacity_bytes == GIB
    assert scene.volids() == ["pve1/local-lvm:vm-9999-pvc-1"]


async def _publish(scene: Scene) -> None:
    await scene.publish(VOLUME)
    assert scene.is_live(VOLUME, 111)


async def _published(scene: Scene) -> None:
    await _create(scene)
    await _publish(scene)


async def _expand(scene: Scene) -> None:
    reply = await scene.expand(VOLUME, 2 * GIB)
    assert reply.capacity_bytes == 2 * GIB
    assert "size=2G" in scene.vm().conf["scsi1"]


async def _unpublish(scene: Scene) -> None:
    await scene.unpublish(VOLUME)
    assert scene.attachments() == {}


async def _delete(scene: Scene) -> None:
    await scene.delete(VOLUME)
    assert scene.volids() == []


CALLS: dict[str, tuple[Call, Call]] = {
    "create": (_nothing, _create),
    "create-again": (_create, _create),
    "publish": (_create, _publish),
    "publish-again": (_published, _publish),
    "expand": (_published, _expand),
    "unpublish": (_published, _unpublish),
    "unpublish-again": (_create, _unpublish),
    "delete": (_create, _delete),
    "delete-again": (_nothing, _delete),
}


async def _code_of(call: Awaitable[object], when: str) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    except AssertionError as error:
        raise AssertionError(f"{when}: success was claimed") from error
    return grpc.StatusCode.OK


def _forget(scene: Scene) -> None:
    """A second controller's index is as empty: the guard has to look anew, and may be lied to as well."""
    index = scene.app.clusters.get("cluster-1").drives
    index._entries.clear()
    index._rights_at = float("-inf")


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", CALLS)
async def test_no_answer_is_believed_that_is_none(name: str, what: str) -> None:
    prepare, call = CALLS[name]
    make, has_effect = STRANGE[what]
    wires: list[Wire] = []

    def wire_of(settings: ClusterSettings) -> httpx.AsyncBaseTransport:
        wires.append(Wire(settings))
        return wires[-1]

    two = {vmid: vm for vmid, vm in three_hosts_dict()["vms"].items() if vmid in (111, 112)}
    async with open_scene(three_hosts(vms=two), with_kube=False, transport_for=wire_of) as scene:
        wire, point, lied_to = wires[0], 0, "?"
        while lied_to:
            point += 1
            await prepare(scene)
            _forget(scene)
            wire.arm(point, make, has_effect)
            code = await _code_of(call(scene), f"point {point}")
            lied_to = wire.lied_to
            wire.disarm()
            assert code not in _OUR_FAULT, lied_to
            assert await _code_of(call(scene), f"after {lied_to}") is grpc.StatusCode.OK, lied_to
            await scene.unpublish(VOLUME)
            await scene.delete(VOLUME)
