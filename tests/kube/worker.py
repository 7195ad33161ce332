"""One worker: containerd, kubelet, our node service and the registration beside it, all as if in that VM.

The kubelet is told `--cloud-provider=external`. Must not touch what belongs to the cluster.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from csikit.contract import DRIVER_NAME
from tests.kube.control_plane import ControlPlane
from tests.kube.place import Place
from tests.kube.programs import Programs
from tests.kube.proxmox import Proxmox
from tests.kube.python_programs import start_module
from tests.kube.setting import Worker
from tests.kube.toolchain import Toolchain

START_S = 20.0
KUBELET_PORT = 10250
CNI_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))


@dataclass
class WorkerPrograms:
    """Of one worker. The parts may be stopped and started one by one."""

    worker: Worker
    place: Place
    tools: Toolchain
    programs: Programs
    control_plane: ControlPlane
    proxmox: Proxmox
    registry_url: str

    @property
    def address(self) -> str:
        """Its --node-ip, on the loopback link."""
        return self.place.address(self.worker.vmid)

    @property
    def kubelet_dir(self) -> Path:
        """The kubelet's root directory."""
        return self.place.folder / f"k{self.worker.vmid}"

    @property
    def containerd_dir(self) -> Path:
        """containerd's everything."""
        return self.place.folder / f"c{self.worker.vmid}"

    @property
    def plugin_dir(self) -> Path:
        """Where the kubelet looks for the driver's socket."""
        return self.kubelet_dir / "plugins" / DRIVER_NAME

    @property
    def csi_socket(self) -> Path:
        """Of our node service."""
        return self.plugin_dir / "csi.sock"

    def name_of(self, program: str) -> str:
        """Under which a program of this worker was started: containerd, kubelet, csi-node or registrar."""
        return f"{program}-{self.worker.name}"

    def start_containerd(self) -> None:
        """The container runtime with its own state and network."""
        folder = self.containerd_dir
        (folder / "cni").mkdir(parents=True)
        (folder / "certs.d" / "_default").mkdir(parents=True)
        hosts = f'server = "{self.registry_url}"\n[host."{self.registry_url}"]\n  capabilities = ["pull", "resolve"]\n'
        (folder / "certs.d" / "_default" / "hosts.toml").write_text(hosts, encoding="ascii")
        ranges = {
            "type": "host-local",
            "subnet": self.place.pod_subnet(self.worker.vmid),
            "dataDir": str(folder / "ipam"),
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        network = {
            "cniVersion": "0.4.0",
            "name": f"{self.place.name}-{self.worker.name}",
            "plugins": [{"type": "ptp", "ipam": ranges}],
        }
        (folder / "cni" / "10-bench.conflist").write_text(json.dumps(network), encoding="ascii")
        plugins = next((each for each in CNI_PLUGINS if each.is_dir()), CNI_PLUGINS[0])
        config = folder / "config.toml"
        config.write_text(_CONTAINERD.format(folder=folder, plugins=plugins), encoding="ascii")
        self.programs.start(self.name_of("containerd"), "containerd", "--config", str(config), "--log-level", "warn")

    def start_kubelet(self) -> None:
        """The kubelet; containerd must have been started, and the API server must be ready."""
        socket = self.containerd_dir / "containerd.sock"
        self.programs.wait_until("containerd listens", socket.exists, START_S, log_of=self.name_of("containerd"))
        if self.address not in self.place.addresses():
            subprocess.run(["ip", "address", "add", f"{self.address}/32", "dev", "lo"], check=True, timeout=10)
        self.kubelet_dir.mkdir(exist_ok=True)
        plane = self.control_plane
        pair = plane.authority.issue(
            self.name_of("kubelet"), f"system:node:{self.worker.name}", groups=["system:nodes"],
            hosts=[self.address, self.worker.name],
        )  # fmt: skip
        kubeconfig = plane.authority.kubeconfig(
            self.place.folder / f"{self.name_of('kubelet')}.kubeconfig", plane.server, pair
        )
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": KUBELET_PORT,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(plane.authority.ca_file)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pair.certificate),
            "tlsPrivateKeyFile": str(pair.key),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.place.make_cgroup(self.worker.name),
            "failCgroupV1": False,
            "failSwapOn": False,
            # Without CAP_SYS_RESOURCE nobody may lower it.
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": f"unix://{socket}",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "localStorageCapacityIsolation": False,
            "podLogsDir": str(self.containerd_dir / "pod-logs"),
            "volumePluginDir": str(self.kubelet_dir / "volume-plugins"),
            "maxPods": 110,
            # A volume that has grown is noticed when its Pod is looked at again: by default once a minute.
            "syncFrequency": "3s",
            # The Node tells which volumes are in use; only then are they detached. By default every ten seconds.
            "nodeStatusUpdateFrequency": "1s",
            "clusterDNS": ["127.0.0.1"],
            "registryPullQPS": 0,
            "serializeImagePulls": False,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
        }
        config = self.place.folder / f"{self.name_of('kubelet')}.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.programs.start(
            self.name_of("kubelet"), str(self.tools.path("kubelet")), f"--config={config}",
            f"--kubeconfig={kubeconfig}", f"--root-dir={self.kubelet_dir}",
            f"--hostname-override={self.worker.name}", f"--node-ip={self.address}", "--cloud-provider=external",
            "--v=2",
        )  # fmt: skip

    def start_driver(self, kubeconfig: Path) -> None:
        """Our node service, and its registration with the kubelet."""
        self.plugin_dir.mkdir(parents=True, exist_ok=True)
        registry_dir = self.kubelet_dir / "plugins_registry"
        registry_dir.mkdir(exist_ok=True)
        guest = self.proxmox.guest(self.worker.vmid)
        start_module(
            self.programs, self.name_of("csi-node"), "csi_node", "--node-id", self.worker.name,
            "--csi-address", f"unix://{self.csi_socket}", "--kubelet-dir", str(self.kubelet_dir),
            "--kubeconfig", str(kubeconfig), "--dev-root", str(guest / "dev"), "--sys-root", str(guest / "sys"),
            restart=True,
        )  # fmt: skip
        start_module(
            self.programs, self.name_of("registrar"), "tests.kube.registrar", "--driver", DRIVER_NAME,
            "--socket", str(registry_dir / f"{DRIVER_NAME}-reg.sock"), "--endpoint", str(self.csi_socket),
            restart=True,
        )  # fmt: skip

    def forget_state(self) -> None:
        """Removes what a stopped kubelet remembers of Pods and devices."""
        for name in ("cpu_manager_state", "memory_manager_state"):
            (self.kubelet_dir / name).unlink(missing_ok=True)
        shutil.rmtree(self.kubelet_dir / "checkpoints", ignore_errors=True)


_CONTAINERD = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10.2"
  restrict_oom_score_adj = true
  disable_tcp_service = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/certs.d"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
"""
