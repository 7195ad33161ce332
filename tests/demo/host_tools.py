"""Whether this machine can show real disks, and if not, why not in words.

Must not change anything on the machine: it looks, and asks the kernel for the cheapest thing that would be refused.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# program -> Debian and Ubuntu package
PROGRAMS = {
    "mkfs.xfs": "xfsprogs",
    "xfs_growfs": "xfsprogs",
    "mkfs.ext4": "e2fsprogs",
    "blkid": "util-linux",
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
}
# Where root's programs are, also when the caller's PATH leaves them out.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class HostAbility:
    """`real`: loop devices, mkfs and mount are used. Otherwise `reasons` says what is in the way, one line each."""

    real: bool
    reasons: tuple[str, ...] = ()


def missing_programs() -> dict[str, str]:
    """Programs that are not here, with the package that has them."""
    return {name: package for name, package in PROGRAMS.items() if shutil.which(name, path=SEARCH_PATH) is None}


def examine() -> HostAbility:
    """What this machine lets the demo do."""
    if os.geteuid() != 0:
        return HostAbility(False, ("not run as root: loop devices and mount need it (sudo make demo)",))
    reasons: list[str] = []
    if missing := missing_programs():
        packages = " ".join(sorted(set(missing.values())))
        reasons.append(f"{', '.join(missing)} not found: apt-get install -y {packages}")
    if not Path("/dev/loop-control").exists():
        reasons.append("no /dev/loop-control: this container has no loop devices (docker run --privileged has)")
    elif "losetup" not in missing and _refused("losetup", "--find"):
        reasons.append("losetup finds no loop device: the kernel has no loop driver or this container may not use it")
    if not _kernel_knows("xfs"):
        reasons.append("this kernel has no xfs (modprobe xfs)")
    if not reasons and _refused("unshare", "--mount", "true"):
        reasons.append("mount is not allowed here (a container without CAP_SYS_ADMIN)")
    return HostAbility(not reasons, tuple(reasons))


def _kernel_knows(file_system: str) -> bool:
    if file_system in Path("/proc/filesystems").read_text(encoding="ascii").split():
        return True
    modprobe = shutil.which("modprobe", path=SEARCH_PATH)
    return modprobe is not None and not _refused(modprobe, file_system)


def _refused(*command: str) -> bool:
    environment = {**os.environ, "PATH": SEARCH_PATH}
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=10).returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return True
