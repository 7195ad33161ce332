"""/storage (definitions) and /nodes/{node}/storage (their state on a host). Recorded from 9.2."""

import hashlib
import json
from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.clusterapi import shuffled_content
from tests.pvesim.errors import die, param_error, param_errors
from tests.pvesim.formats import split_list
from tests.pvesim.pluginlvm import CHAIN
from tests.pvesim.plugins import ALWAYS_SHARED, PLUGINS, supported_content
from tests.pvesim.schema import UNKNOWN
from tests.pvesim.state import Storage

_SEE = ("Datastore.Audit", "Datastore.AllocateSpace")
# What the definition's own keys are; the rest of a POST belongs to the plugin.
_COMMON = frozenset(["storage", "type", "content", "nodes", "disable", "shared", "digest", "delete"])


def storage_digest(call: Call) -> str:
    """SHA-1 over storage.cfg."""
    raw = [
        [s.storage_id, s.type, sorted(s.content), s.shared, s.nodes, s.disabled, s.options]
        for s in call.world.storages.definitions.values()
    ]
    return hashlib.sha1(json.dumps(raw, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _definition(call: Call, storage: Storage) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "storage": storage.storage_id, "type": storage.type, "content": shuffled_content(call, storage),
        "digest": storage_digest(call), **storage.options,
    }  # fmt: skip
    if storage.shared:
        entry["shared"] = 1
    if storage.nodes:
        entry["nodes"] = ",".join(storage.nodes)
    if storage.disabled:
        entry["disable"] = 1
    return entry


async def get_definitions(call: Call) -> Any:
    """Every definition the caller sees something of."""
    wanted = call.params.get("type")
    return Unordered(
        _definition(call, storage)
        for storage in call.world.storages.definitions.values()
        if wanted in (None, storage.type)
        and call.may_any(
            f"/storage/{storage.storage_id}", "Datastore.Audit", "Datastore.AllocateSpace", "Datastore.Allocate"
        )
    )


async def get_definition(call: Call) -> Any:
    """One definition."""
    return _definition(call, call.world.storages.get(call.params["storage"]))


async def create(call: Call) -> Any:
    """A new definition."""
    storages = call.world.storages
    storage_id, kind = call.params["storage"], call.params["type"]
    if storages.find(storage_id) is not None:
        raise die(f"create storage failed: storage ID '{storage_id}' already defined")
    if kind not in PLUGINS:
        raise die(f"create storage failed: pvesim does not simulate storage type '{kind}'")
    _check_release(call)
    options: dict[str, str | int] = {k: v for k, v in call.params.items() if k not in _COMMON}
    storages.definitions[storage_id] = Storage(
        storage_id, kind, supported_content(kind, split_list(call.params.get("content", "images,rootdir"))),
        call.flag("shared") or kind in ALWAYS_SHARED, split_list(call.params.get("nodes", "")), call.flag("disable"),
        options, size_bytes=100 << 30, base_used_bytes=0,
    )  # fmt: skip
    return {"storage": storage_id, "type": kind}


def _check_release(call: Call) -> None:
    if CHAIN in call.params and not call.world.release.volume_chains:
        raise param_errors({CHAIN: UNKNOWN})


async def update(call: Call) -> Any:
    """Change a definition."""
    _check_release(call)
    storage = call.world.storages.get(call.params["storage"])
    if "digest" in call.params and call.params["digest"] != storage_digest(call):
        raise die("detected modified configuration - file changed by other user? Try again.")
    for key in split_list(call.params.get("delete", "")):
        match key:
            case "disable":
                storage.disabled = False
            case "nodes":
                storage.nodes = []
            case "shared":
                storage.shared = False
            case _:
                storage.options.pop(key, None)
    if "content" in call.params:
        storage.content = supported_content(storage.type, split_list(call.params["content"]))
    if "nodes" in call.params:
        storage.nodes = split_list(call.params["nodes"])
    if "disable" in call.params:
        storage.disabled = call.flag("disable")
    if "shared" in call.params:
        storage.shared = call.flag("shared")
    storage.options |= {k: v for k, v in call.params.items() if k not in _COMMON}
    return {"storage": storage.storage_id, "type": storage.type}


async def delete(call: Call) -> Any:
    """Forget a definition; what lies there stays."""
    if call.world.storages.find(call.params["storage"]) is None:
        raise die(f"delete storage failed: storage '{call.params['storage']}' does not exist")
    del call.world.storages.definitions[call.params["storage"]]


def _state(call: Call, storage: Storage) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": storage.type, "content": shuffled_content(call, storage), "shared": int(storage.shared),
        "enabled": 0, "active": 0, "total": 0, "used": 0, "avail": 0,
    }  # fmt: skip
    if storage.disabled or not storage.is_on(call.node):
        return entry
    entry["enabled"] = 1
    if storage.unmounted:
        return entry
    used = call.world.storages.used_bytes(storage, call.node)
    return entry | {
        "active": 1, "total": storage.size_bytes, "used": used, "avail": max(0, storage.size_bytes - used),
    }  # fmt: skip


async def get_node_storages(call: Call) -> Any:
    """State of every storage on this host that the caller may see."""
    wanted = set(split_list(call.params.get("content", "")))
    entries: list[dict[str, Any]] = Unordered()
    for storage in call.world.storages.definitions.values():
        if call.params.get("storage", storage.storage_id) != storage.storage_id or not call.may_any(
            f"/storage/{storage.storage_id}", *_SEE
        ):
            continue
        if wanted and not wanted & set(storage.content):
            continue
        state = _state(call, storage)
        if call.flag("enabled") and not state["enabled"]:
            continue
        if state["total"]:
            state["used_fraction"] = state["used"] / state["total"]
        entries.append({"storage": storage.storage_id, **state})
    return entries


async def get_node_storage_status(call: Call) -> Any:
    """State of one storage; an unknown one is a 400 here."""
    storage = call.world.storages.find(call.params["storage"])
    if storage is None:
        raise param_error(storage="No such storage.")
    return _state(call, storage)


ROUTES: Routes = {
    ("GET", "/storage"): get_definitions,
    ("POST", "/storage"): create,
    ("GET", "/storage/{storage}"): get_definition,
    ("PUT", "/storage/{storage}"): update,
    ("DELETE", "/storage/{storage}"): delete,
    ("GET", "/nodes/{node}/storage"): get_node_storages,
    ("GET", "/nodes/{node}/storage/{storage}/status"): get_node_storage_status,
}
