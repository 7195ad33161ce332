"""/pools. Recorded from 9.2."""

from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.clusterapi import storage_resource, vm_resource
from tests.pvesim.errors import die
from tests.pvesim.formats import split_list


def _members(call: Call, pool: str) -> list[dict[str, Any]]:
    world = call.world
    members: list[dict[str, Any]] = Unordered(
        vm_resource(call, world.vms[vmid], pooled=False)
        for vmid, name in world.access.vm_pool.items()
        if name == pool and vmid in world.vms
    )
    node = world.nodes.first
    members.extend(
        storage_resource(call, world.storages.get(storage), node)
        for storage in sorted(world.access.pool_storages.get(pool, ()))
    )
    return members


def _shown(call: Call, pool: str, *, members: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"poolid": pool}
    if call.world.access.pools[pool]:
        entry["comment"] = call.world.access.pools[pool]
    if members:
        entry["members"] = _members(call, pool)
    return entry


def _check_exists(call: Call, what: str) -> str:
    pool = call.params["poolid"]
    if pool not in call.world.access.pools:
        raise die(f"{what}pool '{pool}' does not exist")
    return pool


async def get_list(call: Call) -> Any:
    """Pools the caller may audit; with `poolid` that one and its members."""
    if "poolid" in call.params:
        return [_shown(call, _check_exists(call, ""), members=True)]
    visible = [p for p in call.world.access.pools if call.may_any(f"/pool/{p}", "Pool.Audit", "Pool.Allocate")]
    return Unordered(_shown(call, pool, members=False) for pool in visible)


async def get_pool(call: Call) -> Any:
    """One pool."""
    return _shown(call, _check_exists(call, ""), members=True)


async def create(call: Call) -> Any:
    """A new pool; `a/b` nests."""
    pool = call.params["poolid"]
    if pool in call.world.access.pools:
        raise die(f"create pool failed: pool '{pool}' already exists")
    call.world.access.pools[pool] = call.params.get("comment", "")


async def update(call: Call) -> Any:
    """Add or remove members; a VM belongs to one pool."""
    access = call.world.access
    pool = _check_exists(call, "update pools failed: ")
    for text in split_list(call.params.get("vms", "")):
        vmid = int(text)
        owner = access.vm_pool.get(vmid)
        if call.flag("delete"):
            access.vm_pool.pop(vmid, None)
        elif owner not in (None, pool) and not call.flag("allow-move"):
            raise die(f"update pools failed: VM {vmid} belongs already to pool '{owner}' and 'allow-move' is not set")
        else:
            access.vm_pool[vmid] = pool
        if vmid in call.world.vms:
            call.world.vms[vmid].pool = access.vm_pool.get(vmid, "")
    members = access.pool_storages.setdefault(pool, set())
    storages = set(split_list(call.params.get("storage", "")))
    access.pool_storages[pool] = members - storages if call.flag("delete") else members | storages
    if "comment" in call.params:
        access.pools[pool] = call.params["comment"]


async def delete(call: Call) -> Any:
    """Only an empty one."""
    access = call.world.access
    pool = _check_exists(call, "delete pool failed: ")
    for child in access.pools:
        if child.startswith(f"{pool}/"):
            raise die(f"delete pool failed: pool '{pool}' is not empty (contains pool '{child}')")
    for vmid, name in access.vm_pool.items():
        if name == pool:
            raise die(f"delete pool failed: pool '{pool}' is not empty (contains VM {vmid})")
    for storage in access.pool_storages.get(pool, ()):
        raise die(f"delete pool failed: pool '{pool}' is not empty (contains storage '{storage}')")
    del access.pools[pool]


ROUTES: Routes = {
    ("GET", "/pools"): get_list,
    ("POST", "/pools"): create,
    ("PUT", "/pools"): update,
    ("DELETE", "/pools"): delete,
    ("GET", "/pools/{poolid}"): get_pool,
    ("PUT", "/pools/{poolid}"): update,
    ("DELETE", "/pools/{poolid}"): delete,
}
