"""Builds a world from plain data: the world file. The shape is described in README.md; an unknown key is an error."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.pvesim.access import AclKey, Token, User
from tests.pvesim.blocks import BlockBackend
from tests.pvesim.clock import DEFAULT_EPOCH
from tests.pvesim.drives import drives_of, format_drive, format_size, parse_size
from tests.pvesim.faults import Faults
from tests.pvesim.formats import split_list
from tests.pvesim.plugins import ALWAYS_SHARED, PLUGINS, supported_content
from tests.pvesim.profile import PROFILES
from tests.pvesim.release import LATEST, RELEASES
from tests.pvesim.saving import SAVED_OF_VOLUMES, SAVED_SECTIONS, restore, restore_vm
from tests.pvesim.state import GuestAgent, Node, Plugged, Storage, Vm
from tests.pvesim.world import World

_TOP = frozenset(
    ["region", "cluster", "seed", "profile", "epoch", "nodes", "storages", "users", "tokens", "roles", "acl", "vms",
     "volumes", "faults", "release", "clock_scale", *SAVED_SECTIONS]
)  # fmt: skip


def read_world(path: Path) -> Mapping[str, Any]:
    """The parsed file; ValueError if it is not a mapping."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(raw, dict):
        raise ValueError(f"{path}: a world file is a mapping")
    return raw


def build_world(raw: Mapping[str, Any], *, blocks: BlockBackend | None = None) -> World:
    """See README.md for the shape. ValueError names an unknown key."""
    unknown = set(raw) - _TOP
    if unknown:
        raise ValueError(f"world file: unknown keys {sorted(unknown)}; known are {sorted(_TOP)}")
    world = World(
        region=raw.get("region", "cluster-1"),
        cluster_name=raw.get("cluster", ""),
        seed=int(raw.get("seed", 1)),
        profile=PROFILES[raw.get("profile", "instant")],
        blocks=blocks,
        epoch=int(raw.get("epoch", DEFAULT_EPOCH)),
        clock_scale=float(raw.get("clock_scale", 1.0)),
        release=RELEASES[str(raw.get("release", LATEST.name))],
    )
    for number, (name, spec) in enumerate(raw["nodes"].items(), start=1):
        _add_node(world, number, name, spec or {})
    for storage_id, spec in raw.get("storages", {}).items():
        _add_storage(world, storage_id, spec)
    _add_access(world, raw)
    for spec in raw.get("volumes", []):
        _add_volume(world, spec)
    for vmid, spec in raw.get("vms", {}).items():
        _add_vm(world, int(vmid), spec)
    restore(world, raw)
    for spec in raw.get("faults", []):
        world.faults.add(Faults.parse(spec))
    return world


def _add_volume(world: World, spec: Mapping[str, Any]) -> None:
    storage = world.storages.get(spec["storage"])
    node = spec.get("node") or world.nodes.first.name
    size_bytes = parse_size(str(spec["size"]))
    volume = world.storages.put(storage, node, spec["name"], size_bytes, spec.get("format", "raw"))
    for key in SAVED_OF_VOLUMES:
        if key in spec:
            setattr(volume, key, copy.deepcopy(spec[key]))


def _add_node(world: World, number: int, name: str, spec: Mapping[str, Any]) -> None:
    node = Node(name, number, spec.get("ip", f"192.0.2.{number}"))
    node.maxcpu = int(spec.get("cpus", node.maxcpu))
    node.maxmem_bytes = parse_size(str(spec.get("memory", "32G")))
    node.maxdisk_bytes = parse_size(str(spec.get("disk", "100G")))
    node.dns = spec.get("dns", node.dns)
    if "interfaces" in spec:
        node.interfaces = _as_list(spec["interfaces"])
    node.dark, node.dark_since = spec.get("dark", ""), float(spec.get("dark_since", 0.0))
    world.nodes.add(node)


def _add_storage(world: World, storage_id: str, spec: Mapping[str, Any]) -> None:
    options = dict(spec)
    kind = options.pop("type")
    if kind not in PLUGINS:
        raise ValueError(f"storage {storage_id}: type {kind!r} is not simulated; known are {sorted(PLUGINS)}")
    world.storages.definitions[storage_id] = Storage(
        storage_id, kind, supported_content(kind, _as_list(options.pop("content", "images,rootdir"))),
        bool(options.pop("shared", False)) or kind in ALWAYS_SHARED, _as_list(options.pop("nodes", "")),
        bool(options.pop("disable", False)), size_bytes=parse_size(str(options.pop("size", "100G"))),
        base_used_bytes=parse_size(str(options.pop("used", "0"))), unmounted=bool(options.pop("unmounted", False)),
        options=options,
    )  # fmt: skip


def _as_list(value: str | list[str]) -> list[str]:
    return split_list(value) if isinstance(value, str) else [str(item) for item in value]


def _add_access(world: World, raw: Mapping[str, Any]) -> None:
    access = world.access
    for userid, spec in raw.get("users", {}).items():
        spec = spec or {}
        access.users[userid] = User(
            userid, spec.get("password"), enabled=spec.get("enabled", True), groups=set(spec.get("groups", []))
        )
        access.users[userid].email = spec.get("email", "")
        access.users[userid].tfa = str(spec.get("tfa", ""))
    for role, privileges in raw.get("roles", {}).items():
        access.custom_roles[role] = set(_as_list(privileges))
    for full_id, spec in raw.get("tokens", {}).items():
        userid, _, name = full_id.partition("!")
        access.users.setdefault(userid, User(userid))
        access.tokens[full_id] = Token(userid, name, str(spec["secret"]), privsep=spec.get("privsep", True))
    for spec in raw.get("acl", []):
        kind = next(kind for kind in ("user", "token", "group") if kind in spec)
        access.acl[AclKey(spec.get("path", "/"), kind, spec[kind], spec["role"])] = spec.get("propagate", True)


def _add_vm(world: World, vmid: int, spec: Mapping[str, Any]) -> None:
    config = {key: str(value) for key, value in spec.get("config", {}).items()}
    vm = Vm(vmid, spec["node"], config)
    if "pool" in spec:
        vm.pool = spec["pool"]
        world.access.vm_pool[vmid] = vm.pool
        world.access.pools.setdefault(vm.pool, "")
    vm.agent = GuestAgent(**copy.deepcopy(dict(spec.get("agent", {}))))
    world.vms[vmid] = vm
    for key, drive in list(drives_of(vm.conf)):
        if drive.is_cdrom and not drive.is_cloudinit:
            continue
        volume = world.storages.find_volume(drive.file, vm.node)
        if volume is None:
            storage, name = world.storages.split(drive.file)
            fmt = PLUGINS[storage.type].parse(storage, name).format
            volume = world.storages.put(storage, vm.node, name, drive.size_bytes or 4 << 20, fmt)
        if not drive.is_cdrom:
            vm.conf[key] = format_drive(drive.with_options(size=format_size(volume.size_bytes)))
    if "saved" in spec:
        restore_vm(world, vm, spec["saved"])
    elif spec.get("running", True):
        # Built, not started: the guest is there from the beginning.
        vm.power, vm.qemu_pid = "running", world.tasks.next_pid()
        for key, drive in drives_of(vm.conf):
            if not drive.is_cdrom:
                vm.plugged[key] = Plugged(key, drive.file, drive.options.get("wwn"), drive.options.get("serial"))
                volume = world.storages.find_volume(drive.file, vm.node)
                if volume is not None:
                    volume.holders.add((vmid, key))
