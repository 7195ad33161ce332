"""A world's state as plain data, and back: `dump` writes a world file that `World.from_dict` reads.

What is being done at that moment is not saved: a task that runs is saved as one that nobody ended, a writer's unsaved
changes as not made, as if all daemons had been killed. Faults, request log and what a block back end holds are no state
of the cluster. Must not know a rule.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.pvesim.access import Identity
from tests.pvesim.ha import Service
from tests.pvesim.profile import PROFILES
from tests.pvesim.state import Plugged, Snapshot, Storage, Vm, Volume
from tests.pvesim.tasks import Task

if TYPE_CHECKING:
    from tests.pvesim.world import World

SAVED_SECTIONS = ("ha", "pools", "options", "tasks", "quorate", "replication")
SAVED_OF_VOLUMES = ("owner", "ctime", "content", "parent", "used_bytes", "snapshots", "damage")


def dump(world: "World") -> dict[str, Any]:
    """A world file; JSON and YAML can hold it."""
    access = world.access
    return {
        "region": world.region,
        "cluster": world.cluster_name,
        "release": world.release.name,
        "profile": next(name for name, profile in PROFILES.items() if profile == world.profile),
        "epoch": world.clock.time(),
        "quorate": world.quorate,
        "nodes": {
            node.name: {
                "ip": node.ip, "cpus": node.maxcpu, "memory": str(node.maxmem_bytes), "disk": str(node.maxdisk_bytes),
                "dns": node.dns, "interfaces": list(node.interfaces), "dark": node.dark,
                # The new world's clock begins at 0.
                "dark_since": node.dark_since - world.clock.monotonic(),
            }
            for node in world.nodes
        },
        "storages": {name: _storage(storage) for name, storage in world.storages.definitions.items()},
        "volumes": [_volume(volume) for volume in world.storages.volumes.values()],
        "users": {
            user.userid: {
                "password": user.password, "enabled": user.enabled, "groups": sorted(user.groups), "email": user.email,
                "tfa": user.tfa,
            }
            for user in access.users.values()
        },
        "tokens": {
            token.full_id: {"secret": token.secret, "privsep": token.privsep} for token in access.tokens.values()
        },
        "roles": {name: sorted(privileges) for name, privileges in access.custom_roles.items()},
        "acl": [
            {"path": key.path, key.kind: key.who, "role": key.role, "propagate": propagates}
            for key, propagates in access.acl.items()
        ],
        "pools": {
            name: {"comment": comment, "storages": sorted(access.pool_storages.get(name, ()))}
            for name, comment in access.pools.items()
        },
        "vms": {vm.vmid: _vm(world, vm) for vm in world.vms.values()},
        "ha": {
            "resources": world.ha.resources, "rules": world.ha.rules, "groups": world.ha.groups,
            "services": {sid: asdict(service) for sid, service in world.ha.services.items()},
            "ever_active": world.ha.ever_active,
        },
        "options": dict(world.options),
        "replication": {name: dict(job) for name, job in world.replication.items()},
        "tasks": [_task(task) for task in world.tasks.by_upid.values()],
    }  # fmt: skip


def _storage(storage: Storage) -> dict[str, Any]:
    return {
        **storage.options, "type": storage.type, "content": list(storage.content), "shared": storage.shared,
        "nodes": list(storage.nodes), "disable": storage.disabled, "size": str(storage.size_bytes),
        "used": str(storage.base_used_bytes), "unmounted": storage.unmounted,
    }  # fmt: skip


def _volume(volume: Volume) -> dict[str, Any]:
    spec: dict[str, Any] = {key: getattr(volume, key) for key in SAVED_OF_VOLUMES}
    return spec | {
        "storage": volume.storage, "node": volume.node, "name": volume.name, "format": volume.format,
        "size": str(volume.size_bytes), "snapshots": dict(volume.snapshots),
    }  # fmt: skip


def _vm(world: "World", vm: Vm) -> dict[str, Any]:
    conf, pending, deletes = vm.file
    saved = {
        "pending": dict(pending), "pending_delete": dict(deletes), "parent": vm.parent, "power": vm.power,
        "paused": vm.paused, "guest_dead": vm.guest_dead, "uptime_s": world.clock.monotonic() - vm.started_at,
        "snapshots": [asdict(snapshot) for snapshot in vm.snapshots.values()],
        "plugged": [asdict(plugged) for plugged in vm.plugged.values()],
        "stuck_controllers": sorted(vm.stuck_controllers), "poisoned_slots": sorted(vm.poisoned_slots),
    }  # fmt: skip
    spec = {"node": vm.node, "config": dict(conf), "agent": asdict(vm.agent), "saved": saved}
    return spec | ({"pool": vm.pool} if vm.pool else {})


def _task(task: Task) -> dict[str, Any]:
    ended = task.exitstatus is not None
    return {
        "upid": task.upid, "user": task.who.userid, "token": task.who.token, "log": list(task.log),
        "exitstatus": task.exitstatus if ended else "unexpected status", "endtime": task.endtime,
    }  # fmt: skip


def restore_vm(world: "World", vm: Vm, saved: Mapping[str, Any]) -> None:
    """What a VM's world-file entry does not say."""
    vm.pending, vm.pending_delete = dict(saved["pending"]), dict(saved["pending_delete"])
    vm.parent, vm.power = saved["parent"], saved["power"]
    vm.paused, vm.guest_dead = saved["paused"], saved["guest_dead"]
    vm.started_at = -float(saved["uptime_s"])
    vm.snapshots = {spec["name"]: Snapshot(**spec) for spec in saved["snapshots"]}
    vm.stuck_controllers, vm.poisoned_slots = set(saved["stuck_controllers"]), set(saved["poisoned_slots"])
    if vm.running:
        vm.qemu_pid = world.tasks.next_pid()
    for spec in saved["plugged"]:
        vm.plugged[spec["key"]] = Plugged(**spec)
        volume = world.storages.find_volume(spec["volid"], vm.node)
        if volume is not None:
            volume.holders.add((vm.vmid, spec["key"]))


def restore(world: "World", raw: Mapping[str, Any]) -> None:
    """The sections that only a saved world has."""
    ha = raw.get("ha", {})
    world.ha.resources |= {sid: dict(spec) for sid, spec in ha.get("resources", {}).items()}
    world.ha.rules |= {name: dict(spec) for name, spec in ha.get("rules", {}).items()}
    world.ha.groups |= {name: dict(spec) for name, spec in ha.get("groups", {}).items()}
    world.ha.services |= {sid: Service(**spec) for sid, spec in ha.get("services", {}).items()}
    world.ha.ever_active = ha.get("ever_active", bool(world.ha.resources))
    for name, spec in raw.get("pools", {}).items():
        world.access.pools[name] = spec.get("comment", "")
        world.access.pool_storages[name] = set(spec.get("storages", []))
    world.options |= raw.get("options", {})
    world.quorate = raw.get("quorate", True)
    world.replication |= {name: dict(job) for name, job in raw.get("replication", {}).items()}
    for spec in raw.get("tasks", []):
        world.tasks.remember(
            spec["upid"], Identity(spec["user"], spec["token"]), spec["log"], spec["exitstatus"], spec["endtime"]
        )
