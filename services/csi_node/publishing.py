"""Publish and unpublish: a staged volume (or a disk itself) made visible to one Pod by a bind mount.

Must not know gRPC, and must not touch a disk. Callers hold the volume's in-flight lock.
"""

from dataclasses import dataclass
from pathlib import Path

from appkit.errors import AlreadyExists, FailedPrecondition, Unavailable
from appkit.logs import get_logger
from csi_node.host.devices import Device, Devices
from csi_node.host.kernel import DeviceNumber, Kernel
from csi_node.host.mounts import Mount, Mounts, check_mount_point, real_path
from csi_node.host.sysfs import Sysfs

_log = get_logger(__name__)


@dataclass(frozen=True)
class Publish:
    """What is to be published. `exclusive`: at one target path of this node only (SINGLE_NODE_SINGLE_WRITER)."""

    volume_id: str
    wwn: str
    staging_path: Path
    target_path: Path
    block: bool
    read_only: bool
    exclusive: bool


class Publishing:
    """Publishes and unpublishes volumes on this node."""

    def __init__(self, *, kernel: Kernel, sysfs: Sysfs, devices: Devices, mounts: Mounts, kubelet_dir: Path) -> None:
        self._kernel = kernel
        self._sysfs = sysfs
        self._devices = devices
        self._mounts = mounts
        self._kubelet_dir = kubelet_dir
        self._writable: set[Path] = set()
        """Targets that this process has published for writing."""

    async def publish(self, wanted: Publish) -> None:
        """Make the volume visible at the target path.

        Raises FailedPrecondition (not staged, or its disk has gone), AlreadyExists (published there in another way).
        """
        if wanted.block:
            await self._publish_block(wanted)
        else:
            await self._publish_mount(wanted)

    async def unpublish(self, target_path: Path) -> None:
        """Unmount the target and remove it; a target that does not exist is fine.

        Raises FailedPrecondition when it is in use, or when files lie under it that are on the node's own disk.
        """
        await self._mounts.unmount(target_path)
        _remove_target(target_path)
        self._writable.discard(target_path)

    async def _publish_mount(self, wanted: Publish) -> None:
        staged = await self._get_staged(wanted)
        read_only = wanted.read_only or staged.read_only
        if wanted.exclusive:
            self._check_exclusive(wanted, staged)
        present = self._mounts.find(wanted.target_path)
        if present is not None and present.number != staged.number:
            await self._take_off_stale(wanted, present.number)
            present = None
        if present is not None:
            if present.root != staged.root:
                raise AlreadyExists(
                    f"{wanted.target_path} shows the directory {present.root} of the volume, not all of it"
                )
            await self._finish(wanted, present, read_only=read_only)
            return
        check_mount_point(wanted.target_path)
        wanted.target_path.mkdir(mode=0o750, parents=True, exist_ok=True)
        bound = await self._mounts.bind(wanted.staging_path, wanted.target_path, read_only=read_only)
        if (bound.number, bound.root) != (staged.number, staged.root):
            await self._mounts.unmount(wanted.target_path)
            raise Unavailable(
                f"{wanted.staging_path} changed while it was bound: {wanted.target_path} showed device {bound.number} "
                f"instead of {staged.number}"
            )
        self._note(wanted, read_only=read_only)

    async def _publish_block(self, wanted: Publish) -> None:
        device = await self._devices.wait_for(wanted.wwn)
        if wanted.exclusive:
            await self._check_exclusive_block(wanted, device)
        present = self._mounts.find(wanted.target_path)
        if present is not None:
            number = await self._kernel.block_device_number(wanted.target_path)
            if number == device.disk.number:
                await self._finish(wanted, present, read_only=wanted.read_only)
                return
            await self._take_off_stale(wanted, number or present.number)
        check_mount_point(wanted.target_path)
        wanted.target_path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        wanted.target_path.touch(mode=0o640)
        await self._devices.check(device)
        await self._mounts.bind(device.node, wanted.target_path, read_only=wanted.read_only)
        if await self._kernel.block_device_number(wanted.target_path) != device.disk.number:
            await self._mounts.unmount(wanted.target_path)
            raise FailedPrecondition(f"{wanted.target_path} does not show {device.disk} after it was bound there")
        self._note(wanted, read_only=wanted.read_only)

    async def _get_staged(self, wanted: Publish) -> Mount:
        staged = self._mounts.find(wanted.staging_path)
        if staged is None:
            raise FailedPrecondition(
                f"volume {wanted.volume_id} is not staged: nothing is mounted at {wanted.staging_path}"
            )
        device = await self._devices.find(wanted.wwn)
        if device is None or device.disk.number != staged.number:
            raise FailedPrecondition(
                f"{wanted.staging_path} shows device {staged.number}, but the disk of volume {wanted.volume_id} "
                f"(WWN {wanted.wwn}) is {device.disk if device else 'not on this node'}: it must be staged again"
            )
        if staged.root != "/":
            raise FailedPrecondition(
                f"{wanted.staging_path} shows the directory {staged.root} of volume {wanted.volume_id}, not all of it"
            )
        await self._kernel.usage(wanted.staging_path)  # a Pod must not be started on a filesystem that has shut down
        return staged

    async def _take_off_stale(self, wanted: Publish, number: DeviceNumber) -> None:
        """Unmount a target whose disk has gone. One whose device is alive belongs to something else."""
        if number.major == 0 or self._sysfs.exists(number):
            raise AlreadyExists(f"another device ({number}) is mounted at {wanted.target_path}")
        _log.warning(
            "the disk (%s) under the target has gone, publishing again", number, extra={"path": wanted.target_path}
        )
        await self._mounts.unmount(wanted.target_path)

    async def _finish(self, wanted: Publish, present: Mount, *, read_only: bool) -> None:
        """Accept what is published already, and end what a killed process has begun.

        A read-only bind takes two steps. A target that is still writable, and that this process has not made so, is
        the first of them: kubelet never changes its mind about a target.
        """
        if present.read_only == read_only:
            return
        if read_only and wanted.target_path not in self._writable:
            _log.warning("making read-only what was left writable", extra={"path": wanted.target_path})
            await self._mounts.make_read_only(present)
            return
        have, want = ("read-only", "writable") if present.read_only else ("writable", "read-only")
        raise AlreadyExists(f"{wanted.target_path} is already published {have}, and {want} was asked for")

    def _note(self, wanted: Publish, *, read_only: bool) -> None:
        if not read_only:
            self._writable.add(wanted.target_path)

    def _check_exclusive(self, wanted: Publish, staged: Mount) -> None:
        """Every mount outside kubelet's own plugin directory is a use by some Pod."""
        mine = {real_path(wanted.target_path), staged.path}
        others = [
            str(mount.path)
            for mount in self._mounts.of_device(staged.number)
            if mount.path not in mine and not mount.path.is_relative_to(self._kubelet_dir / "plugins")
        ]
        self._refuse_others(wanted, others)

    async def _check_exclusive_block(self, wanted: Publish, device: Device) -> None:
        """The same for a disk itself. For each target, kubelet binds the node once more to its own map of the Pod."""
        target = real_path(wanted.target_path)
        plugins = self._kubelet_dir / "plugins"
        others = [
            str(mount.path)
            for mount in await self._mounts.of_node(device.node, device.disk.number)
            if mount.path != target
            and not (mount.path.is_relative_to(plugins) and mount.path.parts[-2:] == ("dev", target.name))
        ]
        self._refuse_others(wanted, others)

    @staticmethod
    def _refuse_others(wanted: Publish, others: list[str]) -> None:
        if others:
            raise FailedPrecondition(
                f"volume {wanted.volume_id} is for one Pod at a time, and is published at {', '.join(others)}"
            )


def _remove_target(path: Path) -> None:
    """Remove the empty directory or file that was the mount point. Never anything with content."""
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif path.is_file() and path.stat().st_size == 0:
            path.unlink()
        elif path.exists():
            raise FailedPrecondition(f"{path} is neither an empty directory nor an empty file; remove it by hand")
    except FileNotFoundError:
        return
    except OSError as error:
        raise FailedPrecondition(
            f"{path} is unmounted but cannot be removed ({error.strerror}): files were written there while nothing was "
            "mounted; move them away by hand"
        ) from error
