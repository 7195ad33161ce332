"""pvesim's control door: what the services asked of Proxmox VE, and what is in the VMs' configurations.

Must not use the API itself: looking must not cost a request that the services would be charged with.
"""

import difflib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

# Keys of a VM's configuration that the story is about: attached disks, and those that Proxmox set aside.
DISK_KEYS = ("scsi", "unused")


@dataclass(frozen=True)
class Request:
    """One request that the simulator answered; `kind` is foreground, poll or background."""

    kind: str
    method: str
    path: str
    status: int
    token_id: str


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment: each VM's disk lines (pending ones marked), and the volumes that Kubernetes owns."""

    disks: Mapping[str, Sequence[str]]
    volumes: Mapping[str, str]  # volid -> host, or "" on shared storage

    def changes_since(self, earlier: "Snapshot") -> list[str]:
        """Diff lines of every VM whose disks changed, each under the VM's name."""
        lines: list[str] = []
        for vm, now in self.disks.items():
            diff = difflib.unified_diff(earlier.disks.get(vm, ()), now, lineterm="", n=0)
            changed = [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")]
            lines += [f"{vm}: {line[0]} {line[1:]}" for line in changed]
        return lines


class PveDoor:
    """Client of `/__sim__/` below the simulator's URL."""

    def __init__(self, url: str, ca_file: str) -> None:
        context = ssl.create_default_context(cafile=ca_file)
        self._http = httpx.AsyncClient(base_url=url, verify=context, trust_env=False)

    async def mark(self) -> int:
        """The present end of the request log, for `requests_since`."""
        return int((await self._get("/__sim__/log?since=1000000000"))["next"])

    async def requests_since(self, mark: int) -> list[Request]:
        """What was asked since `mark`."""
        entries = (await self._get(f"/__sim__/log?since={mark}"))["entries"]
        return [Request(e["kind"], e["method"], e["path"], e["status"], e["auth_id"]) for e in entries]

    async def snapshot(self) -> Snapshot:
        """The cluster as it is now."""
        world = await self._get("/__sim__/world")
        return Snapshot(
            disks={vm["config"]["name"]: disk_lines(vm) for vm in world["vms"].values()},
            volumes={each["volid"]: each["node"] for each in world["volumes"] if "-pvc-" in each["volid"]},
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _get(self, path: str) -> Any:
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()


def disk_lines(vm: Mapping[str, Any]) -> list[str]:
    """The disks of a VM's configuration as `qm config` shows them, pending changes marked."""
    lines = [f"{key}: {value}" for key, value in sorted(vm["config"].items()) if is_disk(key)]
    lines += [f"{key}: {value} (pending)" for key, value in sorted(vm["pending"].items()) if is_disk(key)]
    return lines + [f"{key}: (pending delete)" for key in vm["pending_delete"] if is_disk(key)]


def is_disk(key: str) -> bool:
    """Whether the key of a VM's configuration is a disk that the story is about."""
    return key.rstrip("0123456789") in DISK_KEYS and key[-1:].isdigit()
