"""The Identity service's three answers."""

from typing import Any, cast

import pytest

from appkit.errors import Unavailable
from csikit.identity import IdentityServicer, expansion_capability, service_capability
from csikit.pb import csi_pb2

CONTEXT = cast("Any", None)
Service, Expansion = csi_pb2.PluginCapability.Service, csi_pb2.PluginCapability.VolumeExpansion


def identity(ready: bool = True) -> IdentityServicer:
    async def probe() -> bool:
        return ready

    rows = [service_capability(Service.CONTROLLER_SERVICE), expansion_capability(Expansion.ONLINE)]
    return IdentityServicer("csi.example.org", "1.2.3", rows, probe)


async def test_info() -> None:
    info = await identity().GetPluginInfo(csi_pb2.GetPluginInfoRequest(), CONTEXT)
    assert (info.name, info.vendor_version) == ("csi.example.org", "1.2.3")


async def test_capabilities() -> None:
    reply = await identity().GetPluginCapabilities(csi_pb2.GetPluginCapabilitiesRequest(), CONTEXT)
    assert [row.WhichOneof("type") for row in reply.capabilities] == ["service", "volume_expansion"]
    assert reply.capabilities[0].service.type == Service.CONTROLLER_SERVICE
    assert reply.capabilities[1].volume_expansion.type == Expansion.ONLINE


@pytest.mark.parametrize("ready", [True, False])
async def test_probe_answers_in_words_either_way(ready: bool) -> None:
    reply = await identity(ready).Probe(csi_pb2.ProbeRequest(), CONTEXT)
    assert reply.HasField("ready")
    assert reply.ready.value is ready


async def test_a_probe_that_raises_is_the_interceptors() -> None:
    async def probe() -> bool:
        raise Unavailable("no Proxmox cluster answers")

    with pytest.raises(Unavailable):
        await IdentityServicer("n", "v", [], probe).Probe(csi_pb2.ProbeRequest(), CONTEXT)
