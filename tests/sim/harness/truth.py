"""Where volumes really are: reads of the simulated cluster's state. Must not change it, nor judge it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.pvesim.state import Vm, Volume
from tests.pvesim.world import World
from tests.sim.harness.ledger import VolumeKey
from tests.sim.harness.stage import OWNER

_DRIVE = re.compile(r"(?:scsi|virtio|sata|ide)\d+")
_MARK = f"vm-{OWNER}-"


@dataclass(frozen=True, slots=True)
class Place:
    """A volume of ours in a VM: in its config, waiting, in the guest, as unusedN, or in a snapshot."""

    vmid: int
    key: str
    where: str


def file_of(value: str) -> str:
    return value.partition(",")[0]


def key_on(world: World, volid: str, node: str) -> VolumeKey:
    """How the world files the volume that a VM on `node` means by a volume id."""
    storage_id, _, name = volid.partition(":")
    storage = world.storages.definitions[storage_id]
    return storage_id, "" if storage.shared else node, name


def find_volume(world: World, key: VolumeKey) -> Volume | None:
    return world.storages.volumes.get(key)


def ours_in(vm: Vm) -> Iterator[tuple[str, str, str]]:
    """(where, key, volume id) of every reference to a volume of ours."""
    for where, conf in (("config", vm.conf), ("pending", vm.pending)):
        for key, value in conf.items():
            if _MARK in value:
                if _DRIVE.fullmatch(key):
                    yield where, key, file_of(value)
                elif key.startswith("unused"):
                    yield "unused", key, file_of(value)
    for key, plugged in vm.plugged.items():
        if _MARK in plugged.volid:
            yield "guest", key, plugged.volid
    for name, snapshot in vm.snapshots.items():
        for key, value in snapshot.conf.items():
            if _MARK in value and _DRIVE.fullmatch(key):
                yield "snapshot", f"{name}/{key}", file_of(value)


def places(world: World) -> dict[VolumeKey, list[Place]]:
    """Every reference to a volume of ours in the cluster."""
    found: dict[VolumeKey, list[Place]] = {}
    for vm in world.vms.values():
        for where, key, volid in ours_in(vm):
            found.setdefault(key_on(world, volid, vm.node), []).append(Place(vm.vmid, key, where))
    return found


def places_of(world: World, volume: VolumeKey) -> list[Place]:
    return places(world).get(volume, [])


def drive_keys(vm: Vm) -> set[str]:
    """Every drive key that is in use or waits."""
    return {key for key in (*vm.conf, *vm.pending, *vm.pending_delete, *vm.plugged) if _DRIVE.fullmatch(key)}
