"""What a host tells about its hardware, software and load. Shapes recorded from 9.2, values made up.

Must not be needed by any rule of the simulator: nothing here follows from the world's state but names and times.
"""

from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import denied, die
from tests.pvesim.release import machine_types
from tests.pvesim.vmconfig import get_vm
from tests.pvesim.vmstatus import vm_summary

_PCI = (("0000:00:01.0", "0x1045", "Virtio 1.0 balloon"), ("0000:00:02.0", "0x1042", "Virtio 1.0 block device"))
_CPU_MODELS = (("host", "default"), ("max", "default"), ("x86-64-v2-AES", "default"), ("EPYC", "AuthenticAMD"))
_STEP_S = 60
_STEPS = 70
# Of the summary, what the round-robin data base of a VM keeps.
_VM_SERIES = ("cpu", "mem", "memhost", "maxmem", "disk", "maxdisk", "netin", "netout")


async def get_pci(call: Call) -> Any:
    """Devices on the host's bus."""
    call.require_any("/", "Sys.Audit", "Sys.Modify")
    vendor = {"vendor": "0x1af4", "vendor_name": "Red Hat, Inc."}
    subsystem = {f"subsystem_{key}": value for key, value in vendor.items()}
    return [
        {"id": place, "device": device, "device_name": name, "class": "0xffff00", "iommugroup": -1,
         "subsystem_device": device, **vendor, **subsystem}
        for place, device, name in _PCI
    ]  # fmt: skip


async def get_disks(call: Call) -> Any:
    """Unused disks of the host: none."""
    if not call.may("/", "Sys.Audit") and not call.may(f"/nodes/{call.node}", "Sys.Audit"):
        raise denied()
    return []


async def scan_nfs(call: Call) -> Any:
    """Exports of an NFS server; simulated hosts reach none."""
    raise die(f"command '/sbin/showmount --no-headers --exports {call.params['server']}' failed: exit code 1")


async def get_cpu_models(call: Call) -> Any:
    """What `cpu` may be."""
    models = [{"name": name, "vendor": vendor, "custom": 0} for name, vendor in _CPU_MODELS]
    return Unordered([*models, {"name": "x86-64", "vendor": "default", "custom": 0, "abstract": 1}])


async def get_machines(call: Call) -> Any:
    """What `machine` may be."""
    return Unordered(
        {"id": f"pc-{kind}-{version}", "type": kind, "version": version}
        for kind, version in machine_types(call.world.release)
    )


async def get_time(call: Call) -> Any:
    """The host's clock."""
    call.require(f"/nodes/{call.node}", "Sys.Audit")
    now = call.world.clock.time()
    return {"timezone": "UTC", "time": now, "localtime": now}


async def get_subscription(call: Call) -> Any:
    """None was bought."""
    return {"status": "notfound", "message": "There is no subscription key", "url": "", "serverid": "0" * 32}


async def get_packages(call: Call) -> Any:
    """Packages that matter to Proxmox VE."""
    call.require(f"/nodes/{call.node}", "Sys.Audit")
    package = {
        "Package": "pve-manager", "Title": "Proxmox VE", "Description": "Proxmox VE", "Version": "0", "Arch": "all",
        "Section": "admin", "Priority": "optional", "Origin": "Proxmox", "CurrentState": "Installed", "OldVersion": "0",
    }  # fmt: skip
    return [package]


async def get_firewall_options(call: Call) -> Any:
    """An empty firewall configuration; the digest is that of no file."""
    get_vm(call)
    call.require(f"/vms/{call.vmid}", "VM.Audit")
    return {"digest": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}


def _times(call: Call) -> list[tuple[int, bool]]:
    """(time, whether the world existed then) of the last minutes."""
    now = call.world.clock.time() // _STEP_S * _STEP_S
    born = call.world.clock.epoch
    return [(now - _STEP_S * back, now - _STEP_S * back >= born) for back in range(_STEPS, 0, -1)]


async def get_vm_series(call: Call) -> Any:
    """Load of a VM over time: as it is now, for as long as the world exists."""
    vm = get_vm(call)
    summary = vm_summary(call.world, vm)
    values = {key: summary[key] for key in _VM_SERIES if key in summary} | {"maxcpu": summary["cpus"]}
    values |= {key: value for key, value in summary.items() if key.startswith("pressure")}
    return [{"time": time, **values} if known else {"time": time} for time, known in _times(call)]


async def get_storage_series(call: Call) -> Any:
    """Use of a storage over time."""
    storage = call.world.storages.get(call.params["storage"])
    values = {"total": storage.size_bytes, "used": call.world.storages.used_bytes(storage, call.node)}
    return [{"time": time, **values} if known else {"time": time} for time, known in _times(call)]


_NODE = "/nodes/{node}"
ROUTES: Routes = {
    ("GET", f"{_NODE}/hardware/pci"): get_pci,
    ("GET", f"{_NODE}/disks/list"): get_disks,
    ("GET", f"{_NODE}/scan/nfs"): scan_nfs,
    ("GET", f"{_NODE}/capabilities/qemu/cpu"): get_cpu_models,
    ("GET", f"{_NODE}/capabilities/qemu/machines"): get_machines,
    ("GET", f"{_NODE}/time"): get_time,
    ("GET", f"{_NODE}/subscription"): get_subscription,
    ("GET", f"{_NODE}/apt/versions"): get_packages,
    ("GET", f"{_NODE}/qemu/{{vmid}}/firewall/options"): get_firewall_options,
    ("GET", f"{_NODE}/qemu/{{vmid}}/rrddata"): get_vm_series,
    ("GET", f"{_NODE}/storage/{{storage}}/rrddata"): get_storage_series,
}
