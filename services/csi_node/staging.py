"""Stage and unstage: a volume's filesystem, mounted once per node at the staging path.

This module owns the rule that a disk is never formatted unless it was proved to be blank, and recognises what is
already done: the same disk staged is fine, another one is refused, and a mount that its disk has left is repaired.
Must not know gRPC. Callers hold the volume's in-flight lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appkit.errors import AlreadyExists, Corrupt, Denied, FailedPrecondition, Unavailable
from appkit.logs import get_logger
from csi_node.host import signatures
from csi_node.host.devices import Device, Devices
from csi_node.host.exec import Runner
from csi_node.host.filesystems import DEFAULT, Filesystems, FormatOptions, mount_options
from csi_node.host.kernel import DeadMount, Kernel
from csi_node.host.mounts import Mount, Mounts, check_mount_point, real_path
from csi_node.host.sysfs import Sysfs

_log = get_logger(__name__)

GROW_FROM_BYTES = 16 * 1024 * 1024
"""A filesystem smaller than its disk by less is left alone: mkfs does not use a last piece that is too small."""


@dataclass(frozen=True)
class Stage:
    """What is to be staged. `fs_type` is empty when the claim does not say; then what is there is taken, else ext4."""

    volume_id: str
    wwn: str
    staging_path: Path
    block: bool
    fs_type: str
    mount_flags: tuple[str, ...]
    read_only: bool
    ssd: bool
    format_options: FormatOptions
    resize_required: bool


class Staging:
    """Stages and unstages volumes on this node."""

    def __init__(
        self,
        *,
        runner: Runner,
        kernel: Kernel,
        sysfs: Sysfs,
        devices: Devices,
        mounts: Mounts,
        filesystems: Filesystems,
        kubelet_dir: Path,
    ) -> None:
        self._runner = runner
        self._kernel = kernel
        self._sysfs = sysfs
        self._devices = devices
        self._mounts = mounts
        self._filesystems = filesystems
        self._kubelet_dir = kubelet_dir

    async def stage(self, wanted: Stage) -> None:
        """Make the volume's filesystem available at its staging path; a block volume only needs its disk to be there.

        Raises Unavailable (no disk yet, or the host failed; call again), FailedPrecondition (another filesystem than
        asked for, another volume staged there), Corrupt (something that must not be touched is on the disk).
        """
        device = await self._devices.wait_for(wanted.wwn)
        if wanted.block:
            return
        read_only = wanted.read_only or device.disk.read_only
        async with self._devices.pinned(device):
            mount = await self._staged(wanted, device, read_only=read_only)
            if mount is None:
                await self._mount(wanted, device, read_only=read_only)
            elif not read_only:
                await self._grow(wanted, device, mount, mounted_before=True)

    async def unstage(self, staging_path: Path) -> None:
        """Unmount the staging path; nothing mounted there is fine.

        Raises FailedPrecondition while a Pod still has the filesystem mounted, and Unavailable when data could not be
        written: the disk is detached after this call.
        """
        mount = self._mounts.find(staging_path)
        if mount is not None:
            if self._sysfs.exists(mount.number):
                await self._let_go(staging_path, mount)
            await self._mounts.unmount(staging_path)
        remove_directory(staging_path)

    async def _let_go(self, staging_path: Path, mount: Mount) -> None:
        """Make sure that nothing is lost when the disk goes away after the unmount."""
        pods = real_path(self._kubelet_dir / "pods")  # where the kernel shows it, if the kubelet's directory is a link
        users = [
            str(other.path)
            for other in self._mounts.of_device(mount.number)
            if other.path != mount.path and other.path.is_relative_to(pods)
        ]
        if users:
            raise FailedPrecondition(
                f"{staging_path} cannot be unstaged, the volume is still published at {', '.join(users)}"
            )
        if not mount.read_only and not await self._is_dead(staging_path):
            await self._mounts.flush(staging_path)

    async def _staged(self, wanted: Stage, device: Device, *, read_only: bool) -> Mount | None:
        """The good mount of this disk at the staging path, or None after anything stale there was taken off."""
        mount = self._mounts.find(wanted.staging_path)
        if mount is None:
            return None
        if mount.root != "/":
            raise FailedPrecondition(
                f"{wanted.staging_path} shows the directory {mount.root} of {mount.source}, not a whole filesystem"
            )
        if mount.number != device.disk.number:
            if mount.number.major == 0 or self._sysfs.exists(mount.number):
                raise FailedPrecondition(
                    f"{wanted.staging_path} has another device mounted: {mount.source} ({mount.number}, "
                    f"{mount.fs_type}); the volume's disk is {device.disk}"
                )
            stale = f"its disk ({mount.number}) has gone, the volume's is now {device.disk}"
        elif await self._is_dead(wanted.staging_path):
            stale = "its filesystem has shut down"
        elif mount.read_only and not read_only:
            stale = "it has become read-only"
        else:
            self._check_compatible(wanted, mount, read_only=read_only)
            return mount
        _log.warning("stale mount at the staging path, mounting again: %s", stale, extra={"path": wanted.staging_path})
        await self._mounts.unmount(wanted.staging_path)
        return None

    async def _is_dead(self, path: Path) -> bool:
        try:
            await self._kernel.usage(path)
        except DeadMount:
            return True
        return False

    @staticmethod
    def _check_compatible(wanted: Stage, mount: Mount, *, read_only: bool) -> None:
        if wanted.fs_type and wanted.fs_type != mount.fs_type:
            raise AlreadyExists(
                f"{wanted.staging_path} is already staged as {mount.fs_type}, {wanted.fs_type} was asked for"
            )
        if read_only and not mount.read_only:
            raise AlreadyExists(f"{wanted.staging_path} is already staged for writing, read-only was asked for")

    async def _mount(self, wanted: Stage, device: Device, *, read_only: bool) -> Mount:
        fs_type = await self._prepare(wanted, device, read_only=read_only)
        check_mount_point(wanted.staging_path)
        wanted.staging_path.mkdir(mode=0o750, parents=True, exist_ok=True)
        options = mount_options(fs_type, wanted.mount_flags, ssd=wanted.ssd, read_only=read_only)
        mount = await self._mount_checked(wanted, device, fs_type, options)
        if read_only:
            return mount
        try:
            await self._grow(wanted, device, mount, mounted_before=False)
        except Denied as refused:
            # Only where CAP_SYS_RESOURCE is missing. Growing a mounted ext4 is journaled, growing one that is not
            # mounted is not, so this is the second choice.
            _log.warning("growing before mounting instead: %s", refused)
            await self._mounts.unmount(wanted.staging_path)
            await self._devices.check(device)
            await self._filesystems.grow_unmounted_ext4(device)
            return await self._mount_checked(wanted, device, fs_type, options)
        except BaseException:
            await self._mounts.unmount(wanted.staging_path)
            raise
        return mount

    async def _prepare(self, wanted: Stage, device: Device, *, read_only: bool) -> str:
        """Make sure that a sound filesystem of the right kind is on the disk; answers its kind."""
        content = await signatures.probe(device, self._runner, self._kernel)
        match content:
            case signatures.Foreign():
                raise Corrupt(
                    f"disk {device.disk} of volume {wanted.volume_id} holds {content.what}; it is not touched. "
                    f"If nothing on it is needed, clear it by hand (`wipefs -a {device.node}` on this node)"
                )
            case signatures.Filesystem():
                if content.fs_type != (wanted.fs_type or content.fs_type):
                    raise FailedPrecondition(
                        f"volume {wanted.volume_id} holds {content.fs_type}, but {wanted.fs_type} was asked for; "
                        f"it is not formatted again. Set the fsType of the PersistentVolume to {content.fs_type}"
                    )
                # Where it is mounted already, also by a container that we do not see into, a check is neither possible
                # nor needed: the kernel has it in hand.
                if not read_only and not await self._kernel.is_claimed(device.node):
                    await self._devices.check(device)
                    await self._filesystems.check(device, content.fs_type)
                return content.fs_type
            case signatures.Blank() | signatures.Unfinished():
                return await self._format(wanted, device, content, read_only=read_only)

    async def _format(
        self, wanted: Stage, device: Device, content: signatures.Blank | signatures.Unfinished, *, read_only: bool
    ) -> str:
        if read_only:
            raise FailedPrecondition(
                f"volume {wanted.volume_id} is empty and was asked for read-only: there is nothing to mount"
            )
        fs_type = wanted.fs_type or DEFAULT
        over_unfinished = isinstance(content, signatures.Unfinished)
        _log.info(
            "formatting a blank disk",
            extra={"disk": device.disk.name, "wwn": device.disk.wwn, "fs_type": fs_type, "found": content},
        )
        await self._devices.check(device)
        await self._filesystems.make(device, fs_type, wanted.format_options, over_unfinished=over_unfinished)
        return fs_type

    async def _mount_checked(self, wanted: Stage, device: Device, fs_type: str, options: Sequence[str]) -> Mount:
        """Mount, and believe it when the kernel shows all of this very disk there, writable as it was asked for."""
        await self._devices.check(device)
        mount = await self._mounts.mount(device.node, wanted.staging_path, fs_type, options)
        wrong = ""
        if mount.number != device.disk.number:
            wrong = f"device {mount.number} is mounted instead of {device.disk}"
        elif mount.root != "/":
            wrong = f"only its directory {mount.root} is mounted"
        elif "ro" in options and not mount.read_only:
            wrong = "it is mounted for writing, although read-only was asked for"
        elif mount.read_only and "ro" not in options:
            wrong = "it is mounted read-only, although writing was asked for"
        elif await self._is_dead(wanted.staging_path):
            others = ", ".join(str(other.path) for other in self._mounts.of_device(mount.number))
            wrong = f"the filesystem answers with I/O errors (mounted at {others})"
        if wrong:
            await self._mounts.unmount(wanted.staging_path)
            raise Unavailable(f"mounting {device.node} at {wanted.staging_path}: {wrong}")
        return mount

    async def _grow(self, wanted: Stage, device: Device, mount: Mount, *, mounted_before: bool) -> None:
        """Grow a filesystem that is smaller than its disk: the disk was grown while it was away, or is a larger copy.

        Looked at on every stage rather than left to the controller's one-time `resizeRequired`, which a lost answer
        loses for good.
        """
        head = await self._kernel.read(device.node, 0, 2048)
        size = signatures.filesystem_size(mount.fs_type, head)
        smaller = size is not None and device.disk.size_bytes - size >= GROW_FROM_BYTES
        if smaller or (wanted.resize_required and not mounted_before):
            await self._filesystems.grow_mounted(device, mount.fs_type, mount.path)


def remove_directory(path: Path) -> None:
    """Remove an empty directory. What lies in it was written while nothing was mounted there, and is left alone."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("%s is left behind: %s", path, error.strerror)
