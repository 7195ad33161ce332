"""The calls that kubelet makes, as short methods, for tests of the node service on any kind of machine."""

from dataclasses import dataclass
from pathlib import Path

from csi_node.servicer import NodeServicer
from csikit.contract import device_path, wwn_of
from csikit.handles import parse_handle
from csikit.pb import csi_pb2

MIB = 1024 * 1024


@dataclass
class Volume:
    """A volume's file and identity."""

    handle: str
    file: Path

    @property
    def wwn(self) -> str:
        return wwn_of(parse_handle(self.handle))


class NodeCalls:
    """`root` holds the kubelet's directory; `node` is the service. Paths are as the kubelet makes them."""

    root: Path
    node: NodeServicer

    def staging(self, volume: Volume) -> Path:
        return self.root / "kubelet/plugins/kubernetes.io/csi" / volume.file.stem / "globalmount"

    def target(self, volume: Volume, pod: str = "pod-1") -> Path:
        return self.root / "kubelet/pods" / pod / "volumes/kubernetes.io~csi" / volume.file.stem / "mount"

    async def stage(self, volume: Volume, fs_type: str = "ext4", **kwargs: object) -> None:
        await self.node.NodeStageVolume(self.stage_request(volume, fs_type, **kwargs), None)  # type: ignore[arg-type]

    def stage_request(
        self,
        volume: Volume,
        fs_type: str = "ext4",
        *,
        flags: tuple[str, ...] = (),
        context: dict[str, str] | None = None,
        block: bool = False,
        mode: str = "SINGLE_NODE_WRITER",
    ) -> csi_pb2.NodeStageVolumeRequest:
        return csi_pb2.NodeStageVolumeRequest(
            volume_id=volume.handle,
            publish_context={"DevicePath": device_path(volume.wwn), "lun": "1"},
            staging_target_path=str(self.staging(volume)),
            volume_capability=capability(fs_type, flags, block=block, mode=mode),
            volume_context=context or {},
        )

    async def unstage(self, volume: Volume) -> None:
        await self.node.NodeUnstageVolume(
            csi_pb2.NodeUnstageVolumeRequest(volume_id=volume.handle, staging_target_path=str(self.staging(volume))),
            None,  # type: ignore[arg-type]
        )

    async def publish(
        self,
        volume: Volume,
        pod: str = "pod-1",
        *,
        readonly: bool = False,
        block: bool = False,
        mode: str = "SINGLE_NODE_WRITER",
    ) -> Path:
        target = self.target(volume, pod)
        await self.node.NodePublishVolume(
            csi_pb2.NodePublishVolumeRequest(
                volume_id=volume.handle,
                publish_context={"DevicePath": device_path(volume.wwn), "lun": "1"},
                staging_target_path=str(self.staging(volume)),
                target_path=str(target),
                volume_capability=capability("", (), block=block, mode=mode),
                readonly=readonly,
            ),
            None,  # type: ignore[arg-type]
        )
        return target

    async def unpublish(self, volume: Volume, pod: str = "pod-1") -> None:
        await self.node.NodeUnpublishVolume(
            csi_pb2.NodeUnpublishVolumeRequest(volume_id=volume.handle, target_path=str(self.target(volume, pod))),
            None,  # type: ignore[arg-type]
        )

    async def expand(self, volume: Volume, path: Path, required_mib: int) -> int:
        reply = await self.node.NodeExpandVolume(
            csi_pb2.NodeExpandVolumeRequest(
                volume_id=volume.handle,
                volume_path=str(path),
                staging_target_path=str(self.staging(volume)),
                capacity_range=csi_pb2.CapacityRange(required_bytes=required_mib * MIB),
            ),
            None,  # type: ignore[arg-type]
        )
        return reply.capacity_bytes

    async def stats(self, volume: Volume, path: Path) -> list[csi_pb2.VolumeUsage]:
        reply = await self.node.NodeGetVolumeStats(
            csi_pb2.NodeGetVolumeStatsRequest(volume_id=volume.handle, volume_path=str(path)),
            None,  # type: ignore[arg-type]
        )
        return list(reply.usage)


def capability(
    fs_type: str = "", flags: tuple[str, ...] = (), *, block: bool = False, mode: str = "SINGLE_NODE_WRITER"
) -> csi_pb2.VolumeCapability:
    modes = csi_pb2.VolumeCapability.AccessMode
    message = csi_pb2.VolumeCapability(access_mode=modes(mode=modes.Mode.Value(mode)))
    if block:
        message.block.SetInParent()
    else:
        message.mount.fs_type = fs_type
        message.mount.mount_flags.extend(flags)
        message.mount.SetInParent()
    return message
