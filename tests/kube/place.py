"""Where one bench lives, and how everything of it is found again: folder, cgroups, addresses, all by one number.

The number is also what makes cleaning possible after a kill: whatever a bench makes carries its folder's path or its
name, so nothing depends on bookkeeping. Must not start anything.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.demo import leftovers
from tests.kube import traces

PREFIX = "pvecloud-kube-"
BASE = Path("/tmp")
KEPT_NUMBER = 0
"""That of `make kube`, of which there is one; test runs take the next free numbers."""
NUMBERS = range(8)
CGROUPS = Path("/sys/fs/cgroup")
PATIENCE_S = 2.0
"""How long programs may take to end by themselves: nothing of theirs is kept."""
TAKE_OVER_S = 60.0
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True)
class Place:
    """One bench's share of the machine."""

    number: int

    @property
    def name(self) -> str:
        """Of its folder and of its cgroups."""
        return f"{PREFIX}{self.number}"

    @property
    def folder(self) -> Path:
        """Short, since the path of a unix socket holds 107 characters."""
        return BASE / self.name

    def address(self, host: int) -> str:
        """A worker's address, which is put on the loopback link."""
        return f"10.101.{self.number}.{host}"

    def pod_subnet(self, host: int) -> str:
        """The range of one worker's Pods."""
        return f"10.102.{self.number * 16 + host % 16}.0/24"

    def cgroup_folders(self) -> list[Path]:
        """Its cgroup in every hierarchy (one with version 2), whether it exists or not."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / self.name]
        return [hierarchy / self.name for hierarchy in sorted(CGROUPS.iterdir()) if hierarchy.is_dir()]

    def make_cgroup(self, child: str) -> str:
        """Makes a cgroup for one worker in every hierarchy, usable for children; its path, as a kubelet wants it."""
        for top in self.cgroup_folders():
            for folder in (top, top / child):
                folder.mkdir(exist_ok=True)
                # A cpuset (version 1) starts empty and would take no process.
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if (folder / name).exists() and (folder.parent / name).exists():
                        (folder / name).write_text((folder.parent / name).read_text(encoding="ascii"), encoding="ascii")
        return f"/{self.name}/{child}"

    def containers(self) -> set[int]:
        """Processes of the bench's Pods."""
        found: set[int] = set()
        for folder in self.cgroup_folders():
            for procs in folder.rglob("cgroup.procs"):
                try:
                    found.update(int(line) for line in procs.read_text(encoding="ascii").split())
                except OSError:
                    continue
        return found

    def addresses(self) -> list[str]:
        """Its addresses that the loopback link has."""
        listed = _output("ip", "-o", "-4", "address", "show", "dev", "lo").split()
        return [word for word in listed if word.startswith(f"10.101.{self.number}.")]

    def links(self) -> list[str]:
        """Host ends of its Pods' links."""
        routes = _output("ip", "-o", "-4", "route", "show").splitlines()
        return [
            line.split(" dev ")[1].split()[0]
            for line in routes
            if line.startswith("10.102.") and " dev " in line and int(line.split(".")[2]) // 16 == self.number
        ]

    def describe(self) -> list[str]:
        """Everything of it on the machine, one line each."""
        return [
            *(f"process {pid}" for pid in sorted({*leftovers.processes(self.folder), *self.containers()})),
            *(f"mount {path}" for path in leftovers.mounts(self.folder)),
            *(f"loop device {path}" for path in leftovers.loop_devices(self.folder)),
            *(f"cgroup {path}" for path in self.cgroup_folders() if path.exists()),
            *(f"address {address}" for address in self.addresses()),
            *(f"network link {link}" for link in self.links()),
            *(f"trace {path}" for path in traces.find(self.folder, self.name) if self.folder.exists()),
            *([f"folder {self.folder}"] if self.folder.exists() else []),
        ]

    def remove(self) -> list[str]:
        """Ends, unmounts, detaches and deletes all of it; what could not be removed, one line each."""
        if self.folder.exists() or self.describe():
            self._end_processes()
            self.take_off_disks()
            for folder in self.cgroup_folders():
                _remove_cgroup(folder)
            for link in self.links():
                _run("ip", "link", "delete", link)
            for address in self.addresses():
                _run("ip", "address", "delete", address, "dev", "lo")
            traces.remove(traces.find(self.folder, self.name))
            self._restore_forwarding()
            if not leftovers.mounts(self.folder):
                # Never across a mount: that would delete what is on the disk.
                shutil.rmtree(self.folder, ignore_errors=True)
        return self.describe()

    def take_off_disks(self, mounted: Callable[[Path], bool] = lambda _path: True) -> None:
        """Unmounts what is mounted in its folder (of that, what `mounted` picks) and detaches its loop devices."""
        for command in (("umount",), ("umount", "--lazy")):
            for target in filter(mounted, leftovers.mounts(self.folder)):
                _run(*command, str(target))
        for device in leftovers.loop_devices(self.folder):
            _run("losetup", "--detach", str(device))

    def remember_forwarding(self) -> None:
        """The Pods' network switches forwarding on for the whole machine; `remove` puts it back."""
        (self.folder / "ip_forward").write_text(FORWARDING.read_text(encoding="ascii"), encoding="ascii")

    def _restore_forwarding(self) -> None:
        remembered = self.folder / "ip_forward"
        if remembered.exists():
            FORWARDING.write_text(remembered.read_text(encoding="ascii"), encoding="ascii")

    def _end_processes(self) -> None:
        """Services first and politely, so that they give back what they hold; then whatever is left."""
        _signal(set(leftovers.processes(self.folder)) - self._shims(), signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while set(leftovers.processes(self.folder)) - self._shims() and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        while (pids := {*leftovers.processes(self.folder), *self.containers()}) and time.monotonic() < deadline + 10:
            _signal(pids, signal.SIGKILL)
            threading.Event().wait(0.05)

    def _shims(self) -> set[int]:
        """The Pods' parents, which take SIGTERM for nothing."""
        found: set[int] = set()
        for pid in leftovers.processes(self.folder):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"containerd-shim" in command:
                found.add(pid)
        return found


class Claimed:
    """A place that this process owns until `release`; the kernel takes the lock back when the process dies."""

    def __init__(self, place: Place, lock: IO[str]) -> None:
        self.place = place
        self._lock = lock

    def release(self) -> list[str]:
        """Removes everything; what could not be removed, one line each."""
        left = self.place.remove()
        self._lock.close()
        return left


def claim(number: int | None = None) -> Claimed:
    """A clean place: `number`, ending the bench that is there, or the first free one of the test runs."""
    clear_abandoned()
    if number is not None:
        _end_owner(Place(number))
    for each in NUMBERS if number is None else [number]:
        place = Place(each)
        if number is None and (each == KEPT_NUMBER or place.folder.exists()):
            continue
        try:
            place.folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        lock = (place.folder / "owner").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.write(str(os.getpid()))
        lock.flush()
        return Claimed(place, lock)
    raise RuntimeError(f"no place is free: see {BASE}/{PREFIX}*")


def clear_abandoned() -> list[str]:
    """Removes benches whose owner has died; the folders removed."""
    gone: list[str] = []
    for place in existing():
        if _owner_is_alive(place):
            continue
        place.remove()
        gone.append(str(place.folder))
    return gone


def existing() -> Iterator[Place]:
    """Every bench of which something is on this machine."""
    for number in NUMBERS:
        place = Place(number)
        if place.folder.exists() or any(path.exists() for path in place.cgroup_folders()):
            yield place


def _owner_is_alive(place: Place) -> bool:
    try:
        with (place.folder / "owner").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _end_owner(place: Place) -> None:
    if not place.folder.exists():
        return
    try:
        owner = int((place.folder / "owner").read_text(encoding="ascii"))
    except (OSError, ValueError):
        owner = 0
    if owner:
        _signal({owner}, signal.SIGTERM)
    deadline = time.monotonic() + TAKE_OVER_S
    while _owner_is_alive(place) and time.monotonic() < deadline:
        threading.Event().wait(0.1)
    place.remove()


def _remove_cgroup(folder: Path) -> None:
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        for each in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            _rmdir(each)
        _rmdir(folder)


def _rmdir(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        threading.Event().wait(0.02)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, timeout=30, check=False)
