"""A VM's configuration file: find, lock, save, show. Recorded from 9.2.

Must not decide what a change means; `configwrite.py` does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.pvesim.drives import drives_of, is_drive_key, parse_drive
from tests.pvesim.errors import ApiError, die
from tests.pvesim.schema import load
from tests.pvesim.state import Vm

if TYPE_CHECKING:
    from tests.pvesim.call import Call
    from tests.pvesim.world import World

LOCK_TIMEOUT_S = 10.0


def missing_config(node: str, vmid: int) -> ApiError:
    """The VM does not exist, or lives on another node: Proxmox VE cannot tell here."""
    return die(f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")


def find_vm(world: "World", node: str, vmid: int) -> Vm | None:
    """The VM if its configuration is on this node."""
    vm = world.vms.get(vmid)
    return vm if vm is not None and vm.node == node else None


def get_vm(call: "Call") -> Vm:
    """The VM of the path; 500 when its configuration is not on this node."""
    vm = find_vm(call.world, call.node, call.vmid)
    if vm is None:
        raise missing_config(call.node, call.vmid)
    return vm


@asynccontextmanager
async def config_lock(world: "World", vm: Vm) -> AsyncIterator[None]:
    """The flock on the configuration: 10 s, then 500. What cannot be saved inside does not stay in memory either."""
    try:
        async with world.clock.timeout(LOCK_TIMEOUT_S):
            await vm.config_lock.acquire()
    except TimeoutError:
        raise die(f"can't lock file '/var/lock/qemu-server/lock-{vm.vmid}.conf' - got timeout") from None
    try:
        if world.vms.get(vm.vmid) is not vm:
            raise missing_config(vm.node, vm.vmid)  # destroyed while we waited
        vm.stored = vm.copy_of_file()
        yield
    finally:
        vm.stored = None
        vm.config_lock.release()


def check_lock(vm: Vm) -> None:
    """The `lock:` line of the configuration."""
    if "lock" in vm.conf:
        raise die(f"VM is locked ({vm.conf['lock']})")


def check_digest(vm: Vm, digest: str | None) -> None:
    """The digest the caller saw."""
    if digest and digest != vm.digest:
        raise die("checksum mismatch (file change by other user?)")


def check_writable(world: "World", vm: Vm) -> None:
    """Without quorum the cluster file system is read-only."""
    if not world.quorate:
        pid = world.tasks.next_pid()
        raise die(
            f"unable to open file '/etc/pve/nodes/{vm.node}/qemu-server/{vm.vmid}.conf.tmp.{pid}' - Permission denied"
        )


def save(world: "World", vm: Vm) -> None:
    """Write the file: an unusedN whose volume is in use again vanishes."""
    try:
        check_writable(world, vm)
    except ApiError:
        if vm.stored is not None:
            conf, pending, pending_delete = vm.stored
            vm.conf, vm.pending, vm.pending_delete = dict(conf), dict(pending), dict(pending_delete)
        raise
    used = {drive.file for conf in (vm.conf, vm.pending) for _, drive in drives_of(conf)}
    for key in [k for k in vm.conf if k.startswith("unused") and parse_drive(vm.conf[k]).file in used]:
        del vm.conf[key]
    if vm.stored is not None:
        vm.stored = vm.copy_of_file()


def typed(key: str, value: str) -> Any:
    """A value as JSON has it: numbers for integer and boolean options, strings for the rest (memory, agent, ...)."""
    schema = load()["/nodes/{node}/qemu/{vmid}/config"]["PUT"]["params"]
    kind = schema.get(key, {}).get("type")
    if kind in ("integer", "boolean") and value.lstrip("-").isdigit():
        return int(value)
    return value


def shown(vm: Vm, *, current: bool) -> dict[str, Any]:
    """GET config: with pending changes merged in, or (`current`) as it runs."""
    saved, pending, deletes = vm.file
    conf = dict(saved)
    if not current:
        for key in deletes:
            conf.pop(key, None)
        conf |= pending
    result: dict[str, Any] = {key: typed(key, value) for key, value in conf.items()}
    if vm.parent:
        result["parent"] = vm.parent
    return result | {"digest": vm.digest}


def shown_pending(vm: Vm) -> list[dict[str, Any]]:
    """GET pending: {key, value?, pending?, delete?}; delete 2 is a forced one."""
    conf, pending, deletes = vm.file
    items: list[dict[str, Any]] = [{"key": "digest", "value": vm.digest}]
    if vm.parent:
        items.append({"key": "parent", "value": vm.parent})
    for key, value in conf.items():
        item: dict[str, Any] = {"key": key, "value": typed(key, value)}
        if key in pending:
            item["pending"] = typed(key, pending[key])
        if key in deletes:
            item["delete"] = 2 if deletes[key] else 1
        items.append(item)
    items.extend({"key": k, "pending": typed(k, v)} for k, v in pending.items() if k not in conf)
    items.extend(
        {"key": k, "delete": 2 if forced else 1} for k, forced in deletes.items() if k not in conf and k not in pending
    )
    return items


def add_unused(world: "World", vm: Vm, volid: str) -> None:
    """Keep a volume of this VM under the lowest free unusedN; a foreign one is simply let go."""
    if world.storages.owner_of(volid) != vm.vmid:
        return
    keep_unused(vm, volid)


def keep_unused(vm: Vm, volid: str, wish: int = 0) -> None:
    """Note a volume under the lowest free unusedN from `wish` on, whoever owns it; once only."""
    taken = {key: parse_drive(value).file for key, value in vm.conf.items() if key.startswith("unused")}
    if volid in taken.values():
        return
    number = wish
    while f"unused{number}" in taken:
        number += 1
    vm.conf[f"unused{number}"] = volid


def is_volume_used(vm: Vm, volid: str, except_key: str) -> bool:
    """Whether another key, or a snapshot, refers to the volume."""
    confs = [{k: v for k, v in vm.conf.items() if k != except_key}, *(s.conf for s in vm.snapshots.values())]
    return any(parse_drive(value).file == volid for conf in confs for key, value in conf.items() if is_drive_key(key))


def boot_order(conf: dict[str, str]) -> list[str]:
    """Devices of `boot: order=`; empty without one."""
    order = conf.get("boot", "")
    return (
        [part for part in order.removeprefix("order=").split(";") if part.strip()] if order.startswith("order=") else []
    )
