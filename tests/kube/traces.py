"""What container runtime and kubelet leave at paths that nobody can choose: found through the bench's own folder.

containerd 1.6 keeps its shims' sockets and runc's state in /run/containerd, the kubelet links logs from
/var/log/containers and binds a socket for device plugins. Must not touch what another runtime or kubelet has there.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

RUNC = Path("/run/containerd/runc/k8s.io")
SHIM_SOCKETS = Path("/run/containerd/s")
LOG_LINKS = Path("/var/log/containers")
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
CNI_RESULTS = Path("/var/lib/cni/results")
_EMPTY_AFTERWARDS = (LOG_LINKS, DEVICE_PLUGINS.parent, DEVICE_PLUGINS.parent.parent, CNI_RESULTS, CNI_RESULTS.parent)


def find(folder: Path, network: str) -> list[Path]:
    """Traces of the bench in `folder`, whose Pod networks' names begin with `network`."""
    return [*_shims(folder), *_log_links(folder), *_networks(folder, network), *_device_plugins()]


def remove(traces: list[Path]) -> None:
    """Deletes what `find` found, and the folders that are empty then."""
    for path in traces:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for path in _EMPTY_AFTERWARDS:
        with suppress(OSError):
            path.rmdir()


def _shims(folder: Path) -> Iterator[Path]:
    for bundle in folder.glob("c*/state/io.containerd.runtime.v2.task/k8s.io/*"):
        if (RUNC / bundle.name).exists():
            yield RUNC / bundle.name
        with suppress(OSError):
            address = Path((bundle / "address").read_text(encoding="utf-8").strip().removeprefix("unix://"))
            if address.parent == SHIM_SOCKETS and address.exists():
                yield address


def _log_links(folder: Path) -> Iterator[Path]:
    for link in LOG_LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(folder):
            yield link


def _networks(folder: Path, network: str) -> Iterator[Path]:
    """What CNI noted of the bench's networks, and of its Pods' loopback links."""
    yield from CNI_RESULTS.glob(f"{network}-*")
    for sandbox in folder.glob("c*/state/io.containerd.grpc.v1.cri/sandboxes/*"):
        yield from CNI_RESULTS.glob(f"cni-loopback-{sandbox.name}-*")


def _device_plugins() -> Iterator[Path]:
    """The socket, unless a kubelet listens there."""
    if not DEVICE_PLUGINS.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(DEVICE_PLUGINS))
        except OSError:
            yield DEVICE_PLUGINS
