"""pvesim as a process of the bench, with loop devices as the disks it plugs, and the door to what it knows.

Must not judge. Its memory is the world: stopping it makes the world a new one.
"""

import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.kube.programs import Programs
from tests.kube.python_programs import start_module
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN

START_S = 20.0
NAME = "pvesim"
_ADMINISTRATOR = {"Authorization": f"PVEAPIToken={ROOT_TOKEN}={ROOT_SECRET}"}


@dataclass
class Proxmox:
    """`start`, `wait`; then `world`, faults and darkness by the control door."""

    folder: Path
    programs: Programs
    port: int
    url: str = ""
    _client: httpx.Client | None = field(default=None, repr=False)

    @property
    def state_dir(self) -> Path:
        """Volumes, guests' roots, CA."""
        return self.folder / "pve"

    @property
    def ca_file(self) -> Path:
        """What signs its certificates; new at each start."""
        return self.state_dir / "ca.pem"

    @property
    def _ready_file(self) -> Path:
        return self.folder / "pve.ready"

    def guest(self, vmid: int) -> Path:
        """The folder with a VM's /dev and /sys."""
        return self.state_dir / f"vm-{vmid}"

    def start(self, world: dict[str, Any]) -> None:
        """Starts it with a world of its own."""
        self._ready_file.unlink(missing_ok=True)
        config = self.folder / "world.yaml"
        config.write_text(yaml.safe_dump(world), encoding="utf-8")
        start_module(
            self.programs, NAME, "tests.pvesim", "--config", str(config), "--port", str(self.port), "--blocks", "loop",
            "--state-dir", str(self.state_dir), "--ready-file", str(self._ready_file),
        )  # fmt: skip

    def wait(self) -> None:
        """Until it listens."""
        self.programs.wait_until("pvesim listens", self._ready_file.exists, START_S, log_of=NAME)
        self.url = json.loads(self._ready_file.read_text(encoding="utf-8"))["url"]
        self.close()
        tls = ssl.create_default_context(cafile=str(self.ca_file))
        self._client = httpx.Client(base_url=self.url, verify=tls, timeout=10.0, trust_env=False)

    def close(self) -> None:
        """Closes the door's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def world(self) -> dict[str, Any]:
        """Hosts, VMs, volumes."""
        answer: dict[str, Any] = self._call("GET", "/world")
        return answer

    def log(self, since: int = 0) -> list[dict[str, Any]]:
        """Requests since a mark."""
        entries: list[dict[str, Any]] = self._call("GET", f"/log?since={since}")["entries"]
        return entries

    def mark(self) -> int:
        """The present end of the log."""
        return int(self._call("GET", "/log")["next"])

    def volumes(self) -> dict[str, dict[str, Any]]:
        """Volumes that are not a VM's boot disk, by volid."""
        boot = {vm["config"].get("scsi0", "").split(",")[0] for vm in self.world()["vms"].values()}
        return {each["volid"]: each for each in self.world()["volumes"] if each["volid"] not in boot}

    def disks(self, vmid: int) -> dict[str, str]:
        """Drive strings of a VM's further disks, by key."""
        config = self.world()["vms"][str(vmid)]["config"]
        return {
            key: value
            for key, value in config.items()
            if key.startswith("scsi") and key[4:].isdecimal() and key != "scsi0"
        }

    def add_fault(self, rule: dict[str, Any]) -> None:
        """One rule; see tests/pvesim/README.md."""
        self._call("POST", "/faults", rule)

    def clear_faults(self) -> None:
        """Forgets all rules."""
        self._call("DELETE", "/faults")

    def darken(self, dark: str) -> None:
        """All hosts at once: "cut" is pveproxy killed everywhere, while the VMs run on; "" brings it back."""
        for host in self.world()["nodes"]:
            self._call("POST", f"/nodes/{host}", {"dark": dark})

    def get(self, path: str) -> Any:
        """What the Proxmox VE API answers to the administrator."""
        return self._request("GET", f"/api2/json{path}", headers=_ADMINISTRATOR)["data"]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return self._request(method, f"/__sim__{path}", json=body)

    def _request(self, method: str, path: str, **content: Any) -> Any:
        if self._client is None:
            raise RuntimeError("pvesim has not been waited for")
        answer = self._client.request(method, path, **content)
        answer.raise_for_status()
        return answer.json()
