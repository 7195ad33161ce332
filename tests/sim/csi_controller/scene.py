"""A running controller with a simulated Proxmox VE cluster and Kubernetes around it, and short words for its calls.

Everything between them is real: HTTPS with the cluster's own CA, the fake API server's HTTP, gRPC on a unix socket.
"""

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx

from appkit.clock import Clock
from csi_controller.app import App, build
from csi_controller.settings import ControllerSettings, Loaded
from csikit.pb import csi_pb2, csi_pb2_grpc
from pvekit.settings import CloudConfig, ClusterSettings
from tests.kubesim import KubeSim
from tests.pvesim.log import Entry, Kind
from tests.pvesim.server import SimServer
from tests.pvesim.state import Vm
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, WORKERS, system_uuid, three_hosts

MIB = 1024 * 1024
GIB = 1024 * MIB
REGION = "cluster-1"
READY_S = 10.0
_Mode = csi_pb2.VolumeCapability.AccessMode
TransportFor = Callable[[ClusterSettings], httpx.AsyncBaseTransport]


def capability(mode: Any = _Mode.SINGLE_NODE_WRITER, *, block: bool = False, fs_type: str = "ext4") -> Any:
    """One way of use."""
    message = csi_pb2.VolumeCapability(access_mode=_Mode(mode=mode))
    if block:
        message.block.SetInParent()
    else:
        message.mount.fs_type = fs_type
    return message


def topology(zone: str, region: str = REGION) -> csi_pb2.Topology:
    """A segment as Kubernetes writes it."""
    segments = {"topology.kubernetes.io/region": region} | ({"topology.kubernetes.io/zone": zone} if zone else {})
    return csi_pb2.Topology(segments=segments)


def kube_node(name: str, provider_id: str, uuid: str = "") -> dict[str, Any]:
    """A Node that was initialised."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"providerID": provider_id},
        "status": {"nodeInfo": {"systemUUID": uuid}},
    }


def node_name(vmid: int) -> str:
    """Node and VM have the same name."""
    return f"worker-{vmid - 100}"


def node_id(vmid: int) -> str:
    """As the node service registers."""
    return f"{node_name(vmid)}/{vmid}"


@dataclass
class Spent:
    """The requests of one `Scene.counted` block."""

    world: World
    mark: int
    entries: list[Entry] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Entry]:
        """Those of one kind, so far or at the block's end."""
        return [entry for entry in self.entries or self.world.log.since(self.mark) if entry.kind == kind]

    @property
    def foreground(self) -> int:
        """How many the caller waited for, task polls aside."""
        return len(self.of("foreground"))

    @property
    def config_writes(self) -> int:
        """How many of them changed a VM's config."""
        return sum(
            entry.method in {"POST", "PUT"} and entry.path.endswith("/config") for entry in self.of("foreground")
        )


class Calls(ABC):
    """Short words for a controller's calls; a refused one raises grpc.aio.AioRpcError."""

    @property
    @abstractmethod
    def channel(self) -> grpc.aio.Channel:
        """Where the controller listens."""

    @property
    def controller(self) -> "csi_pb2_grpc.ControllerAsyncStub":
        """The Controller service."""
        return csi_pb2_grpc.ControllerStub(self.channel)

    @property
    def identity(self) -> "csi_pb2_grpc.IdentityAsyncStub":
        """The Identity service."""
        return csi_pb2_grpc.IdentityStub(self.channel)

    async def create(
        self, name: str = "pvc-1", storage: str = "local-lvm", zone: str = "pve1", size_bytes: int = GIB, **fields: Any
    ) -> csi_pb2.Volume:
        """CreateVolume; `zone` "" sends no topology."""
        given: dict[str, Any] = {
            "name": name,
            "volume_capabilities": [capability()],
            "parameters": {"storage": storage},
            "capacity_range": csi_pb2.CapacityRange(required_bytes=size_bytes),
        }
        if zone:
            given["accessibility_requirements"] = csi_pb2.TopologyRequirement(
                requisite=[topology(zone)], preferred=[topology(zone)]
            )
        return (await self.controller.CreateVolume(csi_pb2.CreateVolumeRequest(**(given | fields)))).volume

    async def delete(self, volume: csi_pb2.Volume | str) -> None:
        """DeleteVolume."""
        await self.controller.DeleteVolume(csi_pb2.DeleteVolumeRequest(volume_id=_id(volume)))

    async def publish(
        self, volume: csi_pb2.Volume, vmid: int = 111, *, node: str = "", readonly: bool = False
    ) -> Mapping[str, str]:
        """ControllerPublishVolume; the publish context."""
        reply = await self.controller.ControllerPublishVolume(
            csi_pb2.ControllerPublishVolumeRequest(
                volume_id=volume.volume_id,
                node_id=node or node_id(vmid),
                volume_capability=capability(),
                readonly=readonly,
                volume_context=volume.volume_context,
            )
        )
        return reply.publish_context

    async def unpublish(self, volume: csi_pb2.Volume | str, vmid: int = 111, *, node: str | None = None) -> None:
        """ControllerUnpublishVolume; `node` "" sends none."""
        await self.controller.ControllerUnpublishVolume(
            csi_pb2.ControllerUnpublishVolumeRequest(
                volume_id=_id(volume), node_id=node_id(vmid) if node is None else node
            )
        )

    async def expand(
        self, volume: csi_pb2.Volume | str, size_bytes: int, **fields: Any
    ) -> csi_pb2.ControllerExpandVolumeResponse:
        """ControllerExpandVolume."""
        size = csi_pb2.CapacityRange(required_bytes=size_bytes)
        request = csi_pb2.ControllerExpandVolumeRequest(volume_id=_id(volume), capacity_range=size, **fields)
        return await self.controller.ControllerExpandVolume(request)


class Scene(Calls):
    """Made by `open_scene`. Calls go to the controller that was started last."""

    def __init__(self, world: World, server: SimServer, kube: KubeSim | None, folder: Path) -> None:
        self.world = world
        self.server = server
        self.kube = kube
        self.folder = folder
        self._apps: list[tuple[App, grpc.aio.Channel]] = []

    @property
    def app(self) -> App:
        """The controller that was started last."""
        return self._apps[-1][0]

    @property
    def channel(self) -> grpc.aio.Channel:
        """To its socket."""
        return self._apps[-1][1]

    async def start_app(
        self, transport_for: TransportFor | None = None, *, clock: Clock | None = None, wait: bool = True
    ) -> None:
        """A new controller process, in effect: own objects, own socket, nothing remembered."""
        socket = self.folder / f"csi-{len(self._apps)}.sock"
        settings = ControllerSettings(
            cloud_config=Path("unused"),
            csi_address=f"unix://{socket}",
            kube_server=self.kube.url if self.kube is not None else None,
            drain_s=5.0,
        )
        cloud = CloudConfig(
            clusters=(
                ClusterSettings(
                    region=REGION,
                    urls=tuple(self.server.urls),
                    ca_file=self.server.ca_file,
                    token_id=CSI_TOKEN,
                    token_secret=CSI_SECRET,  # type: ignore[arg-type]
                ),
            )
        )
        app = await build(Loaded(settings, cloud), transport_for=transport_for, clock=clock)
        await app.start()
        self._apps.append((app, grpc.aio.insecure_channel(f"unix:{socket}")))
        if wait:
            await self.wait_ready()

    async def wait_ready(self) -> None:
        """Until the inventory is there and every VM was read once: what "warm" means in the request budgets."""
        async with asyncio.timeout(READY_S):
            await self.app.wait_ready(READY_S)
            assert (await self.identity.Probe(csi_pb2.ProbeRequest())).ready.value
            # Reads every VM and the token's rights, as the index's own rounds do.
            await self.app.clusters.get(REGION).drives.holders("warm:up")

    async def stop_app(self) -> None:
        """End the controller that was started last."""
        app, channel = self._apps.pop()
        await channel.close()
        await app.aclose()

    async def aclose(self) -> None:
        """End everything."""
        while self._apps:
            await self.stop_app()
        if self.kube is not None:
            await self.kube.aclose()
        await self.server.aclose()

    @contextmanager
    def counted(self) -> Iterator[Spent]:
        """Count the requests made inside."""
        spent = Spent(self.world, len(self.world.log))
        yield spent
        spent.entries = self.world.log.since(spent.mark)

    def vm(self, vmid: int = 111) -> Vm:
        """A VM of the simulated cluster."""
        return self.world.vms[vmid]

    def volids(self) -> list[str]:
        """Every volume of the placeholder id, with its host ("" for shared), as `host/volid`."""
        return sorted(
            f"{volume.node}/{volume.volid}" for volume in self.world.storages.volumes.values() if volume.owner == 9999
        )

    def attachments(self) -> dict[int, list[str]]:
        """Which VM has which volumes of the placeholder id, in its config, waiting, or plugged; by VM."""
        found: dict[int, list[str]] = {}
        for vm in self.world.vms.values():
            values = [*vm.conf.values(), *vm.pending.values(), *(plugged.volid for plugged in vm.plugged.values())]
            volids = {str(value).partition(",")[0] for value in values if "vm-9999-" in str(value)}
            if volids:
                found[vm.vmid] = sorted(volids)
        return found

    def is_live(self, volume: csi_pb2.Volume, vmid: int) -> bool:
        """Whether config and guest both have the disk, and nothing waits."""
        vm, volid = self.vm(vmid), "/".join(volume.volume_id.split("/")[2:]).replace("/", ":", 1)
        keys = [key for key, value in vm.conf.items() if str(value).partition(",")[0] == volid]
        if len(keys) != 1 or vm.pending or vm.pending_delete:
            return False
        return vm.plugged[keys[0]].volid == volid if keys[0] in vm.plugged else False


def _id(volume: csi_pb2.Volume | str) -> str:
    return volume if isinstance(volume, str) else volume.volume_id


@asynccontextmanager
async def open_scene(
    world: World | None = None,
    *,
    with_kube: bool = True,
    nodes: Mapping[str, str] | None = None,
    transport_for: TransportFor | None = None,
    start: bool = True,
) -> AsyncIterator[Scene]:
    """A world of three hosts unless another is given, its Nodes, and a warm controller.

    `nodes`: names of further Nodes, to their providerID.
    """
    folder = Path(tempfile.mkdtemp(prefix="csi-"))
    world = world or three_hosts()
    server = SimServer(world, folder)
    await server.start()
    kube: KubeSim | None = None
    if with_kube:
        workers = [kube_node(node_name(vmid), f"proxmox://{REGION}/{vmid}", system_uuid(vmid)) for vmid in WORKERS]
        kube = KubeSim([*workers, *(kube_node(name, provider_id) for name, provider_id in (nodes or {}).items())])
        await kube.start()
    scene = Scene(server.world, server, kube, folder)
    try:
        if start:
            await scene.start_app(transport_for)
        yield scene
    finally:
        await scene.aclose()
        shutil.rmtree(folder)
