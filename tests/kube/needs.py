"""What the bench needs of the machine, and what to install when it is not there. Must not install anything itself."""

import os
import platform
import shutil
from pathlib import Path

from tests.kube.toolchain import ToolsMissing, find_go, toolchain
from tests.kube.worker import CNI_PLUGINS

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "mkfs.xfs": "xfsprogs",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
    "losetup": "mount",
}
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"
BUSYBOX = (Path("/bin/busybox"), Path("/usr/bin/busybox"))


def busybox() -> Path:
    """The statically linked busybox of the test images."""
    return next((path for path in BUSYBOX if path.exists()), BUSYBOX[0])


def missing(programs: tuple[str, ...]) -> list[str]:
    """Why the bench cannot run here, one line each; `programs` are those that may have to be built."""
    lines: list[str] = []
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        lines.append(f"the bench runs on Linux on x86_64, not on {platform.system()} {platform.machine()}")
    if os.geteuid() != 0:
        lines.append("root is needed: a kubelet, containerd and loop devices (sudo make ...)")
    packages = sorted({package for name, package in PACKAGES.items() if not shutil.which(name, path=SEARCH_PATH)})
    if not busybox().exists() or _is_dynamic(busybox()):
        packages.append("busybox-static")
    if not any((folder / "ptp").exists() for folder in CNI_PLUGINS):
        packages.append("containernetworking-plugins")
    if packages:
        lines.append(f"not installed: apt-get install --no-install-recommends {' '.join(packages)}")
    if not Path("/dev/loop-control").exists():
        lines.append("there are no loop devices (/dev/loop-control): modprobe loop")
    if toolchain().missing(programs):
        try:
            find_go()
        except ToolsMissing as error:
            lines.append(str(error))
    return lines


def _is_dynamic(program: Path) -> bool:
    """Whether it names a loader: it would not run in an image that has nothing else."""
    with program.open("rb") as file:
        return b"/lib64/ld-linux" in file.read(4096)
