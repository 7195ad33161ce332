"""Everything that runs while the story is told: two simulators, the CCM, the controller, six node services.

It starts them over their own command lines, as an image would, and proves at the end that nothing of them is left.
Must not know the story.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from csikit.pb import csi_pb2
from tests.demo import leftovers
from tests.demo.csi_door import CsiDoor
from tests.demo.kube_door import KubeDoor
from tests.demo.processes import DemoError, Processes
from tests.demo.pve_door import PveDoor, Snapshot
from tests.demo.screen import Screen
from tests.demo.setting import UNINITIALIZED, WORKERS, Worker, cloud_config
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, CSI_SECRET, CSI_TOKEN

START_S = 20.0
SIMULATORS = ("pvesim", "kubesim")


class Stage:
    """`build`, then the doors may be used; `close` stops all in order; `disconnect` only closes our connections."""

    def __init__(self, screen: Screen, folder: Path, *, real: bool) -> None:
        self.screen = screen
        self.folder = folder
        self.real = real
        self.processes = Processes(folder / "logs")
        self.node_ids: dict[str, str] = {}
        self.nodes: dict[str, CsiDoor] = {}

    # These exist once `build` has run.
    pve: PveDoor
    kube: KubeDoor
    controller: CsiDoor
    pve_url: str
    kube_url: str

    def fail(self, text: str, log_of: str = "") -> NoReturn:
        """Ends the demo."""
        raise DemoError(text, log_of)

    def vm_dir(self, worker: Worker) -> Path:
        """Where the simulator lays out the /dev and /sys of a VM."""
        return self.folder / "pve" / f"vm-{worker.vmid}"

    def kubelet_dir(self, worker: Worker) -> Path:
        """The kubelet's directory in a VM."""
        return self.folder / "kubelets" / worker.name

    def socket(self, name: str) -> Path:
        """A service's CSI socket."""
        return self.folder / "s" / f"{name}.sock"

    @property
    def ca_file(self) -> Path:
        """What signs the simulated Proxmox VE's certificates."""
        return self.folder / "pve" / "ca.pem"

    @property
    def kubeconfig(self) -> Path:
        """Of the fake Kubernetes API."""
        return self.folder / "kubeconfig"

    async def build(self) -> None:
        """Starts everything and waits until all of it answers; raises DemoError when something does not."""
        for name in ("logs", "s"):
            (self.folder / name).mkdir()
        await self._start_simulators()
        self._start_services()
        ready = {"controller": self.controller} | self.nodes
        for running in self.processes.running:
            if running.name in ready:
                socket = self.socket(running.name)
                await self.processes.wait_until(socket.is_socket, f"{running.name} listens", running, START_S)
        await self._wait_probes(ready)

    async def _start_simulators(self) -> None:
        pve_ready, kube_ready = self.folder / "pve.ready", self.folder / "kube.ready"
        state = str(self.folder / "pve")
        blocks = "loop" if self.real else "files"
        pve = self.processes.start(
            "pvesim", "tests.pvesim", "--ready-file", str(pve_ready), "--state-dir", state, "--blocks", blocks
        )
        kube = self.processes.start(
            "kubesim", "tests.kubesim", "--ready-file", str(kube_ready), "--kubeconfig", str(self.kubeconfig)
        )
        await self.processes.wait_until(pve_ready.exists, "the simulated Proxmox VE listens", pve, START_S)
        await self.processes.wait_until(kube_ready.exists, "the fake Kubernetes API listens", kube, START_S)
        self.pve_url = json.loads(pve_ready.read_text(encoding="utf-8"))["url"]
        self.kube_url = kube_ready.read_text(encoding="utf-8").strip()
        self.pve = PveDoor(self.pve_url, str(self.ca_file))
        self.kube = KubeDoor(self.kube_url)

    def _start_services(self) -> None:
        for name, token, secret in (("csi", CSI_TOKEN, CSI_SECRET), ("ccm", CCM_TOKEN, CCM_SECRET)):
            config = cloud_config(self.pve_url, str(self.ca_file), token, secret)
            path = self.folder / f"{name}-cloud-config.yaml"
            path.write_text(yaml.safe_dump(config), encoding="utf-8")
            path.chmod(0o600)
        kube = ("--kubeconfig", str(self.kubeconfig))
        self.processes.start("ccm", "ccm", "--cloud-config", str(self.folder / "ccm-cloud-config.yaml"), *kube)
        self.processes.start(
            "controller", "csi_controller", "--cloud-config", str(self.folder / "csi-cloud-config.yaml"), *kube,
            "--csi-address", f"unix://{self.socket('controller')}",
        )  # fmt: skip
        self.controller = CsiDoor("controller", self.socket("controller"))
        for worker in WORKERS:
            self._start_node(worker, *kube)

    def _start_node(self, worker: Worker, *kube: str) -> None:
        self.kubelet_dir(worker).mkdir(parents=True)
        module = (
            ("csi_node",) if self.real else ("tests.fakes.node_main", "--fake-state", str(self.folder / "recorded"))
        )
        vm = self.vm_dir(worker)
        self.processes.start(
            worker.name, *module, "--node-id", worker.name, *kube,
            "--csi-address", f"unix://{self.socket(worker.name)}",
            "--kubelet-dir", str(self.kubelet_dir(worker)),
            "--dev-root", str(vm / "dev"), "--sys-root", str(vm / "sys"),
        )  # fmt: skip
        self.nodes[worker.name] = CsiDoor(worker.name, self.socket(worker.name))

    async def _wait_probes(self, doors: dict[str, CsiDoor]) -> None:
        """Until every service says it is ready: the controller once its inventory is warm."""
        waiting = dict(doors)
        try:
            async with asyncio.timeout(START_S):
                while waiting:
                    self.processes.check()
                    for name, door in list(waiting.items()):
                        if (await door.must("Probe", csi_pb2.ProbeRequest())).ready.value:
                            del waiting[name]
        except TimeoutError:
            name = next(iter(waiting))
            self.fail(f"{name} is not ready after {START_S:.0f} s", log_of=name)

    async def wait_initialised(self, workers: Sequence[Worker], timeout_s: float) -> list[dict[str, Any]]:
        """The Nodes, once the CCM has removed the taint from each."""
        nodes: dict[str, dict[str, Any]] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while len(nodes) < len(workers):
                    self.processes.check()
                    for worker in workers:
                        node = await self.kube.node(worker.name)
                        if all(taint["key"] != UNINITIALIZED for taint in node["spec"].get("taints") or []):
                            nodes[worker.name] = node
                    await asyncio.sleep(0.05)
        except TimeoutError:
            missing = ", ".join(worker.name for worker in workers if worker.name not in nodes)
            self.fail(f"not initialised within {timeout_s:.0f} s: {missing}", log_of="ccm")
        return [nodes[worker.name] for worker in workers]

    async def check_clean(self, before: Snapshot) -> None:
        """No volume, no disk in a VM, no mount, no loop device, no secret in a log; raises DemoError with what is."""
        self.processes.check()
        now = await self.pve.snapshot()
        left = [f"volume {volid}" for volid in now.volumes if volid not in before.volumes]
        left += [f"VM config {line}" for line in now.changes_since(before)]
        left += [f"mount {path}" for path in leftovers.mounts(self.folder)]
        left += [f"loop device {path}" for path in leftovers.loop_devices(self.folder)]
        left += [f"recorded mount {line}" for line in self._recorded_mounts()]
        for log in sorted((self.folder / "logs").iterdir()):
            text = log.read_text(encoding="utf-8", errors="replace")
            left += [f"a token's secret in {log.name}" for secret in (CSI_SECRET, CCM_SECRET) if secret in text]
        if left:
            self.fail("left behind: " + "; ".join(left))
        self.screen.say("✓ No volume, no disk in a VM's configuration, no mount, no loop device; no secret in a log")

    def _recorded_mounts(self) -> list[str]:
        """What the fake hosts of a run without root still have mounted, besides their root."""
        tables = (self.folder / "recorded").glob("*/mountinfo")
        return [line for table in tables for line in table.read_text(encoding="utf-8").splitlines()[1:]]

    async def close(self) -> None:
        """Stops the services, then the simulators; raises DemoError unless every process ended well."""
        count = len(self.processes.running)
        services = [each.name for each in self.processes.running if each.name not in SIMULATORS]
        unclean = await self.processes.stop(services) + await self.processes.stop(SIMULATORS)
        unclean += leftovers.describe(self.folder)
        if unclean:
            self.fail("not a clean end: " + "; ".join(unclean), log_of=unclean[0].split()[0])
        self.screen.say(f"✓ {count} processes ended on SIGTERM with status 0")

    async def disconnect(self) -> None:
        """Closes the demo's own connections."""
        for name in ("pve", "kube", "controller"):
            if door := getattr(self, name, None):
                await door.aclose()
        for door in self.nodes.values():
            await door.aclose()
