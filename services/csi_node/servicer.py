"""The Node service of CSI: parse, hold the volume, do, reply. Nothing is decided here."""

from pathlib import Path
from typing import Any

from grpc.aio import ServicerContext

from csi_node import requests
from csi_node.expansion import Expansion
from csi_node.host.smbios import find_vmid
from csi_node.node_info import max_volumes_of, topology_of
from csi_node.operations import Operations
from csi_node.own_node import OwnNode
from csi_node.publishing import Publishing
from csi_node.staging import Staging
from csi_node.stats import BlockUsage, Stats
from csikit.handles import NodeId, format_node_id
from csikit.pb import csi_pb2, csi_pb2_grpc

Context = ServicerContext[Any, Any]
_Rpc = csi_pb2.NodeServiceCapability.RPC
CAPABILITIES = (
    _Rpc.STAGE_UNSTAGE_VOLUME,
    _Rpc.EXPAND_VOLUME,
    _Rpc.GET_VOLUME_STATS,
    _Rpc.SINGLE_NODE_MULTI_WRITER,
)


class NodeServicer(csi_pb2_grpc.NodeServicer):
    """Serves this machine, whose Node and VM `node_id` names (the VM number is looked up in SMBIOS if it does not)."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        own_node: OwnNode,
        operations: Operations,
        staging: Staging,
        publishing: Publishing,
        expansion: Expansion,
        stats: Stats,
        kubelet_dir: Path,
        sys_root: Path,
    ) -> None:
        self._node_id = node_id
        self._own_node = own_node
        self._operations = operations
        self._staging = staging
        self._publishing = publishing
        self._expansion = expansion
        self._stats = stats
        self._kubelet_dir = kubelet_dir
        self._sys_root = sys_root

    async def NodeStageVolume(  # noqa: N802, D102 - the protocol's names and meanings, here and below
        self, request: csi_pb2.NodeStageVolumeRequest, context: Context
    ) -> csi_pb2.NodeStageVolumeResponse:
        wanted = requests.parse_stage(request, self._kubelet_dir)
        await self._operations.run(
            wanted.volume_id, "NodeStageVolume", lambda: self._staging.stage(wanted), disk=wanted.wwn
        )
        return csi_pb2.NodeStageVolumeResponse()

    async def NodeUnstageVolume(  # noqa: N802, D102
        self, request: csi_pb2.NodeUnstageVolumeRequest, context: Context
    ) -> csi_pb2.NodeUnstageVolumeResponse:
        volume_id = requests.parse_volume_id(request.volume_id)
        path = requests.parse_path("staging_target_path", request.staging_target_path, self._kubelet_dir)
        await self._operations.run(volume_id, "NodeUnstageVolume", lambda: self._staging.unstage(path))
        return csi_pb2.NodeUnstageVolumeResponse()

    async def NodePublishVolume(  # noqa: N802, D102
        self, request: csi_pb2.NodePublishVolumeRequest, context: Context
    ) -> csi_pb2.NodePublishVolumeResponse:
        wanted = requests.parse_publish(request, self._kubelet_dir)
        await self._operations.run(wanted.volume_id, "NodePublishVolume", lambda: self._publishing.publish(wanted))
        return csi_pb2.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(  # noqa: N802, D102
        self, request: csi_pb2.NodeUnpublishVolumeRequest, context: Context
    ) -> csi_pb2.NodeUnpublishVolumeResponse:
        volume_id = requests.parse_volume_id(request.volume_id)
        path = requests.parse_path("target_path", request.target_path, self._kubelet_dir)
        await self._operations.run(volume_id, "NodeUnpublishVolume", lambda: self._publishing.unpublish(path))
        return csi_pb2.NodeUnpublishVolumeResponse()

    async def NodeExpandVolume(  # noqa: N802, D102
        self, request: csi_pb2.NodeExpandVolumeRequest, context: Context
    ) -> csi_pb2.NodeExpandVolumeResponse:
        wanted = requests.parse_expand(request)
        size = await self._operations.run(wanted.volume_id, "NodeExpandVolume", lambda: self._expansion.expand(wanted))
        return csi_pb2.NodeExpandVolumeResponse(capacity_bytes=size)

    async def NodeGetVolumeStats(  # noqa: N802, D102
        self, request: csi_pb2.NodeGetVolumeStatsRequest, context: Context
    ) -> csi_pb2.NodeGetVolumeStatsResponse:
        volume_id, path = requests.parse_stats(request)
        usage = await self._stats.measure(volume_id, path)
        unit = csi_pb2.VolumeUsage.Unit
        if isinstance(usage, BlockUsage):
            return csi_pb2.NodeGetVolumeStatsResponse(
                usage=[csi_pb2.VolumeUsage(total=usage.total_bytes, unit=unit.BYTES)]
            )
        return csi_pb2.NodeGetVolumeStatsResponse(
            usage=[
                csi_pb2.VolumeUsage(
                    total=usage.total_bytes, used=usage.used_bytes, available=usage.available_bytes, unit=unit.BYTES
                ),
                csi_pb2.VolumeUsage(
                    total=usage.total_inodes, used=usage.used_inodes, available=usage.available_inodes, unit=unit.INODES
                ),
            ]
        )

    async def NodeGetCapabilities(  # noqa: N802, D102
        self, request: csi_pb2.NodeGetCapabilitiesRequest, context: Context
    ) -> csi_pb2.NodeGetCapabilitiesResponse:
        return csi_pb2.NodeGetCapabilitiesResponse(
            capabilities=[csi_pb2.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in CAPABILITIES]
        )

    async def NodeGetInfo(  # noqa: N802, D102
        self, request: csi_pb2.NodeGetInfoRequest, context: Context
    ) -> csi_pb2.NodeGetInfoResponse:
        node = await self._own_node.get()
        vmid = self._node_id.vmid if self._node_id.vmid is not None else find_vmid(self._sys_root)
        return csi_pb2.NodeGetInfoResponse(
            node_id=format_node_id(NodeId(self._node_id.name, vmid)),
            max_volumes_per_node=max_volumes_of(node),
            accessible_topology=csi_pb2.Topology(segments=topology_of(node)),
        )
