"""Full copies of volumes: qemu-img convert, its speed limit, and what is left when it is interrupted.

qemu-server 9, recorded. Whoever writes to the source meanwhile is neither noticed nor waited for. Must not touch a
configuration.
"""

import asyncio

from tests.pvesim.call import Call
from tests.pvesim.errors import ApiError, die
from tests.pvesim.state import Storage, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task

_PROGRESS_PERCENT = 2


async def copy_volume(
    call: Call,
    source: Volume,
    vmid: int,
    storage: Storage,
    fmt: str | None,
    node: str,
    task: Task | None,
    key: str = "",
    operation: str = "clone",
) -> Volume:
    """A full copy named and owned as the VM's next disk; `operation` names the bandwidth limit that applies.

    A source that has gone by now, and an interrupt, end it with an error and without a volume; kill -9 leaves both the
    volume and qemu-img.
    """
    storages = call.world.storages
    plugin = plugin_of(storage)
    wanted = fmt or source.format
    if wanted not in plugin.formats_of(storage):
        wanted = plugin.default_format
    _print(task, [f"create full clone of drive {key} ({source.volid})".replace("drive  (", "drive (")])
    if "cloudinit" in source.name:
        name = plugin.cloudinit_name(vmid)[0]
        name = f"{name.rsplit('.', 1)[0]}.{wanted}" if "/" in name else name
        target = await storages.allocate(storage, node, name, source.size_bytes, wanted)
    else:
        target = await storages.allocate_next(storage, node, vmid, source.size_bytes, wanted)
    _print(task, plugin.format_line(storage, target.name, wanted, source.size_bytes))
    _print(task, [f"allocated target volume '{target.volid}'"])
    if "cloudinit" not in source.name:
        await _convert(call, source, target, node, task, _limit_kib(call, source, target, operation))
    return target


async def _convert(call: Call, source: Volume, target: Volume, node: str, task: Task | None, limit_kib: int) -> None:
    world = call.world
    seconds = world.profile.copy_s_per_gib * source.size_bytes / (1 << 30)
    if limit_kib and seconds:
        seconds = max(seconds, source.size_bytes / (limit_kib << 10))
    try:
        await world.clock.sleep(world.profile.image_info_s)
        if world.storages.find_volume(source.volid, node) is not source:
            raise die(f"volume '{source.volid}' does not exist")
        await _progress(call, source.size_bytes, seconds, task)
        await world.storages.copy(source, target)
    except ApiError:
        await world.storages.discard(target, node)
        raise
    except asyncio.CancelledError:
        if task is None or task.killed_hard:
            raise
        await world.storages.discard(target, node)
        raise die(
            f"copy failed: command '{_command(call, source, target, limit_kib)}' failed: received interrupt"
        ) from None


async def _progress(call: Call, size_bytes: int, seconds: float, task: Task | None) -> None:
    whole = human_size(size_bytes)
    _print(task, [f"transferred 0.0 B of {whole} (0.00%)"])
    steps = 100 // _PROGRESS_PERCENT if seconds > 1 else 1
    for step in range(1, steps + 1):
        await call.world.clock.sleep(seconds / steps)
        _print(task, [f"transferred {human_size(size_bytes * step // steps)} of {whole} ({100 * step / steps:.2f}%)"])


def _command(call: Call, source: Volume, target: Volume, limit_kib: int) -> str:
    storages = call.world.storages
    limit = f"-r {limit_kib}K " if limit_kib else ""
    formats = f"-f {source.format} -O {target.format}"
    paths = f"{storages.path_of(source)} zeroinit:{storages.path_of(target)}"
    return f"/usr/bin/qemu-img convert -p -n {limit}{formats} {paths}"


def _limit_kib(call: Call, source: Volume, target: Volume, operation: str) -> int:
    """KiB/s: the caller's, else the lowest of both storages; 0 is none."""
    if "bwlimit" in call.params:
        return int(call.params["bwlimit"])
    limits = []
    for storage_id in {source.storage, target.storage}:
        options = str(call.world.storages.get(storage_id).options.get("bwlimit", ""))
        by_operation = dict(part.split("=", 1) for part in options.split(",") if "=" in part)
        limits.append(int(by_operation.get(operation, by_operation.get("default", "0"))))
    return min((limit for limit in limits if limit), default=0)


def human_size(size_bytes: int) -> str:
    """As Proxmox VE prints progress: `1.0 GiB`."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.1f} B"


def _print(task: Task | None, lines: list[str]) -> None:
    if task is not None:
        for line in lines:
            task.print(line)
