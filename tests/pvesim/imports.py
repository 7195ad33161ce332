"""Files that come from outside onto a storage (upload, download), and copies of volumes by root. Recorded from 9.2.

Must not hold the rules of volumes that a VM makes; those are in `contentapi.py` and `disks.py`.
"""

import hashlib
import re
from typing import Any

from tests.pvesim.call import Call, Routes
from tests.pvesim.contentapi import volid_of
from tests.pvesim.errors import ApiError, die, param_error
from tests.pvesim.state import Storage, Volume
from tests.pvesim.storage import plugin_of
from tests.pvesim.tasks import Task
from tests.pvesim.volaccess import check_volume_access

_EXTENSIONS = {
    "iso": re.compile(r".+\.(iso|img)", re.IGNORECASE),
    "vztmpl": re.compile(r".+\.tar\.(gz|xz|zst|bz2)"),
    "import": re.compile(r".+\.(raw|qcow2|vmdk|ova|ovf)"),
}
_QCOW2_MAGIC = b"QFI\xfb"


def _target(call: Call) -> tuple[Storage, str]:
    """(storage, volume name) of a file to come; 500 or 400 when the storage or the name does not do."""
    storage = call.world.storages.get_usable(call.params["storage"], call.node)
    content, filename = call.params["content"], call.params["filename"]
    if content not in storage.content:
        raise die(f"storage '{storage.storage_id}' does not support '{content}' content")
    if not _EXTENSIONS[content].fullmatch(filename):
        raise param_error(filename="wrong file extension")
    return storage, f"{content}/{filename}"


async def upload(call: Call) -> Any:
    """A file that came with the request; an existing one of that name is overwritten."""
    storage, name = _target(call)
    path = call.params["tmpfilename"]
    data = call.world.uploads.pop(path)
    wanted, algorithm = call.params.get("checksum"), call.params.get("checksum-algorithm", "sha256")
    if wanted is not None and hashlib.new(algorithm, data, usedforsecurity=False).hexdigest() != wanted.lower():
        # The text has a carriage return in it, which no reason phrase may have: nothing of it arrives.
        raise ApiError(400, "Bad Request", bare=True)

    async def work(task: Task) -> None:
        task.print(f"starting file import from: {path}")
        if name.endswith(".qcow2") and not data.startswith(_QCOW2_MAGIC):
            task.print(f"command '/usr/bin/qemu-img info '--output=json' {path} -f qcow2' failed: exit code 1")
            raise die(f"qemu-img: Could not open '{path}': Image is not in qcow2 format")
        storages = call.world.storages
        storages.activate(storage.storage_id, call.node)
        target = plugin_of(storage).path(storage, name)
        task.print(f"target node: {call.node}")
        task.print(f"target file: {target}")
        task.print(f"file size is: {len(data)}")
        task.print(f"command: cp -- {path} {target}")
        storages.put(storage, call.node, name, len(data), plugin_of(storage).parse(storage, name).format)
        task.print("finished file import successfully")

    return call.start_task("imgcopy", "", work).upid


async def download(call: Call) -> Any:
    """A file from a URL. Simulated hosts have no way out, so the task fails as it does without a network."""
    storage, name = _target(call)
    url, filename = call.params["url"], call.params["filename"]

    async def work(task: Task) -> None:
        target = plugin_of(storage).path(storage, name)
        task.print(f"downloading {url} to {target}")
        command = f"/usr/bin/wget --progress=dot:giga -O {target}.tmp_dwnl.{task.pid} {url}"
        raise die(f"download failed: command '{command}' failed: exit code 4")

    return call.start_task("download", filename, work).upid


async def set_attributes(call: Call) -> Any:
    """Notes and protection are a backup's."""
    check_volume_access(call, None, volid_of(call))
    if "notes" in call.params:
        raise die("only backups can have notes")
    if "protected" in call.params:
        raise die("only backups support attribute 'protected'")


async def copy(call: Call) -> Any:
    """root@pam's copy of a volume to a name of its choice, on the same storage, here or on another host.

    Names and storage are checked at once, everything else is the task's to find out. On a shared storage nothing is
    copied and the task is well.
    """
    source_volid = volid_of(call)
    storage, source_name = call.world.storages.split(source_volid)
    target = call.params["target"]
    prefix, colon, name = target.partition(":")
    if not colon:
        prefix, name = storage.storage_id, target
    if prefix != storage.storage_id:
        raise param_error(volume=f"storage ID mismatch ({prefix} != {storage.storage_id})\n")
    node = call.params.get("target_node", call.node)

    async def work(task: Task) -> None:
        task.print(f"DEBUG: starting worker {task.upid}")
        world = call.world
        plugin_of(storage).parse(storage, name)
        await world.nodes.proxy_to(node, protected=False, clustered=bool(world.cluster_name))
        if not storage.shared:
            source = world.storages.get_for_attach(source_volid, call.node)
            await _send(call, storage, source, name, node)
        task.print(f"DEBUG: end worker {task.upid}")

    plugin_of(storage).parse(storage, source_name)
    return call.start_task("imgcopy", "", work).upid


async def _send(call: Call, storage: Storage, source: Volume, name: str, node: str) -> None:
    """pvesm export | ssh | pvesm import: raw files only, to a free name, and root must be let in over there."""
    world = call.world
    volid = f"{storage.storage_id}:{name}"
    fmt = plugin_of(storage).parse(storage, name).format
    taken = world.storages.find_volume(volid, node) is not None
    if not world.cluster_name or taken or "raw" not in (source.format, fmt) or source.format != fmt:
        host = world.nodes.find(node)
        ssh = f"/usr/bin/ssh -e none -o 'BatchMode=yes' -o 'HostKeyAlias={node}' root@{host.ip if host else node}"
        export = f"pvesm export {source.volid} raw+size - -with-snapshots 0"
        took = f"pvesm import {volid} raw+size - -with-snapshots 0 -allow-rename 0"
        raise die(f"command 'set -o pipefail && {export} | {ssh} -- {took}' failed: exit code 255")
    await world.clock.sleep(world.profile.copy_s_per_gib * source.size_bytes / (1 << 30))
    copied = await world.storages.allocate(storage, node, name, source.size_bytes, fmt)
    await world.storages.copy(source, copied)


_CONTENT = "/nodes/{node}/storage/{storage}"
ROUTES: Routes = {
    ("POST", f"{_CONTENT}/upload"): upload,
    ("POST", f"{_CONTENT}/download-url"): download,
    ("POST", f"{_CONTENT}/content/{{volume}}"): copy,
    ("PUT", f"{_CONTENT}/content/{{volume}}"): set_attributes,
}
