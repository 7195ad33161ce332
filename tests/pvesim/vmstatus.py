"""What Proxmox VE reports about a running or stopped VM: one summary, shown by three calls.

Must not read what the cluster last heard (`broadcast.py`); this is the host's own view.
"""

from typing import TYPE_CHECKING, Any

from tests.pvesim.drives import drives_of, parse_drive
from tests.pvesim.state import Vm

if TYPE_CHECKING:
    from tests.pvesim.world import World

DEFAULT_MEMORY_MIB = 512


def memory_mib(vm: Vm) -> int:
    """Configured memory."""
    text = vm.conf.get("memory", str(DEFAULT_MEMORY_MIB))
    return int(text.removeprefix("current="))


def cpus(vm: Vm) -> int:
    """Configured virtual CPUs."""
    return int(vm.conf.get("sockets", "1")) * int(vm.conf.get("cores", "1"))


def boot_disk_bytes(vm: Vm) -> int:
    """Size of the boot disk, 0 without one."""
    order = vm.conf.get("boot", "").removeprefix("order=")
    for key in [part for part in order.split(";") if part in vm.conf]:
        if not key.startswith("net"):
            drive = parse_drive(vm.conf[key])
            if not drive.is_cdrom:
                return drive.size_bytes
    if "boot" in vm.conf:
        return 0
    return next((drive.size_bytes for _, drive in sorted(drives_of(vm.conf)) if not drive.is_cdrom), 0)


def vm_summary(world: "World", vm: Vm) -> dict[str, Any]:
    """Keys as /nodes/{node}/qemu shows them."""
    running, conf = vm.running, vm.file[0]
    uptime = int(world.clock.monotonic() - vm.started_at) if running else 0
    summary: dict[str, Any] = {
        "vmid": vm.vmid,
        "status": "running" if running else "stopped",
        "name": conf.get("name", f"VM {vm.vmid}"),
        "cpus": cpus(vm),
        "cpu": 0.01 if uptime else 0,
        "maxmem": memory_mib(vm) << 20,
        "mem": (memory_mib(vm) << 19) if uptime else 0,
        "maxdisk": boot_disk_bytes(vm),
        "disk": 0,
        "netin": 0,
        "netout": 0,
        "uptime": uptime,
    }
    if world.release.pressure:
        summary["memhost"] = summary["mem"]
    if conf.get("tags"):
        summary["tags"] = conf["tags"]
    if vm.is_template:
        summary["template"] = 1
    if any(key.startswith("serial") for key in conf):
        summary["serial"] = 1
    if "lock" in conf:
        summary["lock"] = conf["lock"]
    if running:
        summary["pid"] = vm.qemu_pid
    if running and world.release.pressure:
        pressures = ("cpusome", "cpufull", "iosome", "iofull", "memorysome", "memoryfull")
        summary |= {f"pressure{name}": 0 for name in pressures}
    return summary
