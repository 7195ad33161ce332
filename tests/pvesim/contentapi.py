"""/nodes/{node}/storage/{storage}/content: allocate, list, look at and delete volumes. Recorded from 9.2.

Nothing here asks whether a VM uses a volume: Proxmox VE does not either.
"""

import re
from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import ApiError, die, param_error
from tests.pvesim.state import Storage, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task
from tests.pvesim.volaccess import check_volume_access

_EXTENSION = re.compile(r".*\.(raw|qcow2|vmdk)", re.DOTALL)
_FACTOR_KIB = {"": 1, "M": 1 << 10, "G": 1 << 20}


async def allocate(call: Call) -> Any:
    """A new volume; the answer is its id. A bare size is KiB."""
    filename, fmt = call.params["filename"], call.params.get("format")
    size_text = call.params["size"]
    unit = size_text[-1] if size_text[-1:] in ("M", "G") else ""
    size_bytes = int(size_text.removesuffix(unit)) * _FACTOR_KIB[unit] << 10
    extension = _EXTENSION.fullmatch(filename)
    if extension:
        if fmt not in (None, extension[1]):
            raise param_error(format=f"different storage formats ({fmt} != {extension[1]})")
        fmt = extension[1]
    storages = call.world.storages
    storage = storages.activate(call.params["storage"], call.node)
    name, real_format = plugin_of(storage).name_for(storage, int(call.params["vmid"]), filename, fmt)
    plugin_of(storage).check_limits(storage, name, size_bytes, real_format)
    volume = await storages.allocate(storage, call.node, name, size_bytes, real_format)
    return volume.volid


async def get_list(call: Call) -> Any:
    """Volumes; each entry is filtered by access to it."""
    storages = call.world.storages
    storage = storages.get_usable(call.params["storage"], call.node)
    wanted = call.params.get("content")
    vmid = call.params.get("vmid")
    entries: list[dict[str, Any]] = Unordered()
    for volume in list(storages.on(storage, call.node)):
        if wanted not in (None, volume.content) or (vmid is not None and volume.owner != int(vmid)):
            continue
        try:
            check_volume_access(call, None, volume.volid)
        except ApiError:
            continue
        if plugin_of(storage).looks_into_images and volume.content == "images":
            await call.world.clock.sleep(call.world.profile.image_info_s)
        entries.append(_list_entry(storage, volume))
    return entries


def _list_entry(storage: Storage, volume: Volume) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "volid": volume.volid, "content": volume.content, "format": volume.format, "size": volume.size_bytes,
    }  # fmt: skip
    if volume.content == "images":
        entry["vmid"] = volume.owner
    extra = plugin_of(storage).list_entry(volume.used_bytes, volume.parent, volume.ctime, volume.content)
    return entry | extra


def volid_of(call: Call) -> str:
    """The volume in the path: with storage or without, the storages must agree."""
    given, storage_id = call.params["volume"], call.params["storage"]
    prefix, colon, _ = given.partition(":")
    if not colon:
        return f"{storage_id}:{given}"
    if prefix != storage_id:
        raise param_error(volume=f"storage ID mismatch ({prefix} != {storage_id})\n")
    return given


async def get_volume(call: Call) -> Any:
    """Path, size and format; neither owner nor time."""
    volid = volid_of(call)
    storages = call.world.storages
    storage, name = storages.split(volid)
    check_volume_access(call, None, volid)
    plugin = plugin_of(storage)
    plugin.parse(storage, name)
    storages.activate(storage.storage_id, call.node)
    volume = storages.find_volume(volid, call.node)
    if volume is None:
        raise plugin.info_missing(storage, name)
    if plugin.looks_into_images:
        await call.world.clock.sleep(call.world.profile.image_info_s)
    used = plugin.shown_used(volume.used_bytes)
    return {"path": plugin.path(storage, name), "size": volume.size_bytes, "used": used, "format": volume.format}


async def delete(call: Call) -> Any:
    """UPID at once, or with `delay` null once the task ended well, 500 with its text when it failed."""
    volid = volid_of(call)
    storages = call.world.storages
    storage, name = storages.split(volid)
    call.require(f"/storage/{storage.storage_id}", "Datastore.Allocate")
    parsed = plugin_of(storage).parse(storage, name)
    if storages.has_clones(volid, call.node):
        raise die(f"base volume '{volid}' is still in use by linked cloned")

    async def work(task: Task) -> None:
        storages.activate(storage.storage_id, call.node)
        for line in await storages.free(volid, call.node):
            task.print(line)
        task.print(f"Removed volume '{volid}'")

    target = storage.storage_id if parsed.owner is None else f"{parsed.owner}@{storage.storage_id}"
    task = call.start_task("imgdel", target, work)
    if "delay" not in call.params:
        return task.upid
    if not await call.world.tasks.wait(task, float(call.params["delay"])):
        return task.upid
    if task.failed:
        raise die(task.exitstatus or "")
    return None


ROUTES: Routes = {
    ("GET", "/nodes/{node}/storage/{storage}/content"): get_list,
    ("POST", "/nodes/{node}/storage/{storage}/content"): allocate,
    ("GET", "/nodes/{node}/storage/{storage}/content/{volume}"): get_volume,
    ("DELETE", "/nodes/{node}/storage/{storage}/content/{volume}"): delete,
}
