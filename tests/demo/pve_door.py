"""pvesim's control door: what the services asked of Proxmox VE, and what is in the VMs' configurations.

Must not use the API itself: looking must not cost a request that the services would be charged with.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

# Keys of a VM's configuration that the story is about.
DISK_KEYS = ("scsi", "unused")


@dataclass(frozen=True)
class Request:
    """One request that the simulator answered; `kind` is foreground, poll or background."""

    kind: str
    method: str
    path: str
    status: int


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
        self._http = httpx.AsyncClient(base_url=url, verify=ca_file, trust_env=False)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _get(self, path: str) -> Any:
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()
