"""Block back ends with something real behind every volume: sparse files, and loop devices on them for root.

A volume is the file `<run>/volumes/<storage>/<node or shared>/<name>`. `SparseFiles` shows a plugged disk as a link to
its file (nothing can be mounted, but sizes and identities are right); `LoopDevices` as a block device node. Boot disks
of a world that is built running are not shown. Must not know the API.
"""

import asyncio
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from tests.pvesim.guestroots import GuestDisk, GuestRoots
from tests.pvesim.state import Plugged, Vm, Volume


class SparseFiles:
    """Plain files; needs no rights."""

    def __init__(self, run_dir: Path) -> None:
        self._volumes_dir = run_dir / "volumes"
        self.roots = GuestRoots(run_dir)
        # volume file -> guests that have it
        self._holders: dict[Path, list[tuple[int, str]]] = {}
        self._minor = 16
        self._freed = 0

    def file_of(self, volume: Volume) -> Path:
        """The file behind a volume."""
        return self._path(volume, volume.name)

    def _path(self, volume: Volume, name: str) -> Path:
        return self._volumes_dir / volume.storage / (volume.node or "shared") / name

    async def allocate(self, volume: Volume) -> None:
        """A sparse file."""
        path = self.file_of(volume)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(volume.size_bytes)

    async def free(self, volume: Volume) -> None:
        """The file goes; guests that have it open keep it, apart from a later volume of the same name."""
        path = self.file_of(volume)
        path.unlink(missing_ok=True)
        self._freed += 1
        self._forget_name(path, path.with_name(f"{path.name}#{self._freed}"))

    def _forget_name(self, path: Path, substitute: Path) -> None:
        if path in self._holders:
            self._holders[substitute] = self._holders.pop(path)

    async def resize(self, volume: Volume) -> None:
        """A longer file; guests see the new size."""
        path = self._ensure(volume)
        os.truncate(path, volume.size_bytes)
        for vmid, slot in self._holders.get(path, []):
            self.roots.set_size(vmid, slot, volume.size_bytes)

    async def copy(self, source: Volume, target: Volume) -> None:
        """A sparse copy, as long as the target is."""
        path = self._ensure(target)
        await _run("cp", "--sparse=always", "--", str(self._ensure(source)), str(path))
        os.truncate(path, target.size_bytes)

    async def rename(self, volume: Volume, former_name: str) -> None:
        """The file moves along."""
        path = self.file_of(volume)
        path.parent.mkdir(parents=True, exist_ok=True)
        former = self._path(volume, former_name)
        if former.exists():
            former.rename(path)
        self._forget_name(former, path)

    async def plug(self, vm: Vm, plugged: Plugged, volume: Volume) -> None:
        """A link to the file in the guest's /dev."""
        path = self._ensure(volume)
        name = self.roots.take_name(vm.vmid, plugged.key)
        (self.roots.dev(vm.vmid) / name).symlink_to(path.resolve())
        self._minor += 16
        self._show(vm, plugged, volume, path, f"8:{self._minor}")

    async def unplug(self, vm: Vm, plugged: Plugged) -> None:
        """The link goes."""
        self._hide(vm, plugged)

    async def aclose(self) -> None:
        """Files below the run directory are its owner's to remove."""

    def _show(self, vm: Vm, plugged: Plugged, volume: Volume, path: Path, numbers: str) -> None:
        self._holders.setdefault(path, []).append((vm.vmid, plugged.key))
        disk = GuestDisk(plugged.key, plugged.wwn, plugged.serial, volume.size_bytes, numbers)
        self.roots.show(vm.vmid, disk)

    def _hide(self, vm: Vm, plugged: Plugged) -> None:
        node = self.roots.hide(vm.vmid, plugged.key, plugged.wwn)
        if node is not None:
            node.unlink()
        for holders in self._holders.values():
            if (vm.vmid, plugged.key) in holders:
                holders.remove((vm.vmid, plugged.key))

    def _ensure(self, volume: Volume) -> Path:
        """Volumes that a world was built with have no file before they are first used."""
        path = self.file_of(volume)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(volume.size_bytes)
        return path


@dataclass
class _Loop:
    device: str
    numbers: str
    holders: set[tuple[int, str]] = field(default_factory=set)


class LoopDevices(SparseFiles):
    """A loop device for each volume that a guest has; needs root. Nothing is left behind by `aclose`."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        self._loops: dict[Path, _Loop] = {}

    async def resize(self, volume: Volume) -> None:
        """The loop device learns the new size, as QEMU's block_resize tells the guest."""
        await super().resize(volume)
        loop = self._loops.get(self.file_of(volume))
        if loop is not None:
            await _run("losetup", "-c", loop.device)

    async def plug(self, vm: Vm, plugged: Plugged, volume: Volume) -> None:
        """A block device node with the loop device's numbers in the guest's /dev."""
        path = self._ensure(volume)
        loop = self._loops.get(path)
        if loop is None:
            loop = self._loops[path] = await _attach(path)
        loop.holders.add((vm.vmid, plugged.key))
        name = self.roots.take_name(vm.vmid, plugged.key)
        major, minor = (int(number) for number in loop.numbers.split(":"))
        os.mknod(self.roots.dev(vm.vmid) / name, stat.S_IFBLK | 0o660, os.makedev(major, minor))
        self._show(vm, plugged, volume, path, loop.numbers)

    async def unplug(self, vm: Vm, plugged: Plugged) -> None:
        """The node goes; with its last holder the loop device too (the kernel waits for a mount to end)."""
        self._hide(vm, plugged)
        for path, loop in list(self._loops.items()):
            loop.holders.discard((vm.vmid, plugged.key))
            if not loop.holders:
                del self._loops[path]
                await _run("losetup", "-d", loop.device)

    def _forget_name(self, path: Path, substitute: Path) -> None:
        super()._forget_name(path, substitute)
        if path in self._loops:
            self._loops[substitute] = self._loops.pop(path)

    async def aclose(self) -> None:
        """Give all loop devices back."""
        while self._loops:
            _, loop = self._loops.popitem()
            await _run("losetup", "-d", loop.device)


async def _attach(path: Path) -> _Loop:
    device = (await _run("losetup", "--find", "--show", "--", str(path))).strip()
    return _Loop(device, _numbers(Path(device)))


def _numbers(device: Path) -> str:
    number = device.stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


async def _run(*command: str) -> str:
    """A host command's output; OSError with its complaint when it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        raise OSError(f"{' '.join(command)}: {err.decode(errors='replace').strip()}")
    return out.decode()
