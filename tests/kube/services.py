"""Our controller and CCM and the upstream sidecars, each under its own service account.

Accounts and rights come from `manifests/`; tokens are asked for by the TokenRequest API. Must not know the workers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import yaml

from csikit.pb import csi_pb2, csi_pb2_grpc
from tests.kube.control_plane import ControlPlane
from tests.kube.programs import Programs
from tests.kube.proxmox import Proxmox
from tests.kube.python_programs import start_module
from tests.kube.setting import DRIVER_NAMESPACE, cloud_config
from tests.kube.toolchain import Toolchain
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, CSI_SECRET, CSI_TOKEN

CONTROLLER: Final = "csi-controller"
CCM: Final = "ccm"
SIDECARS: Final = ("csi-provisioner", "csi-attacher", "csi-resizer")
SNAPSHOTTER: Final = "csi-snapshotter"
SNAPSHOT_CONTROLLER: Final = "snapshot-controller"
START_S: Final = 30.0
TOKEN_S: Final = 24 * 3600

CONTROLLER_ACCOUNT: Final = (DRIVER_NAMESPACE, "proxmox-csi-controller")
NODE_ACCOUNT: Final = (DRIVER_NAMESPACE, "proxmox-csi-node")
CCM_ACCOUNT: Final = ("kube-system", "proxmox-cloud-controller-manager")
SNAPSHOT_ACCOUNT: Final = ("kube-system", "snapshot-controller")


@dataclass
class Services:
    """The cluster's side of the driver. Each program may be killed: it comes back as a container would."""

    folder: Path
    tools: Toolchain
    programs: Programs
    control_plane: ControlPlane
    proxmox: Proxmox

    @property
    def csi_socket(self) -> Path:
        """Of the controller."""
        return self.folder / "csi" / "csi.sock"

    def kubeconfig(self, account: tuple[str, str]) -> Path:
        """A kubeconfig with a token of this service account, asked for at the first call."""
        namespace, name = account
        file = self.folder / f"{name}.kubeconfig"
        if not file.exists():
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_S},
            }
            plane = self.control_plane
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
            token: str = plane.api.request("POST", path, request)["status"]["token"]
            plane.authority.kubeconfig(file, plane.server, token)
        return file

    def start_controller(self) -> None:
        """The CSI controller, on its socket."""
        self.csi_socket.parent.mkdir(exist_ok=True)
        start_module(
            self.programs, CONTROLLER, "csi_controller",
            "--cloud-config", str(self._cloud_config("csi", CSI_TOKEN, CSI_SECRET)),
            "--csi-address", f"unix://{self.csi_socket}",
            "--kubeconfig", str(self.kubeconfig(CONTROLLER_ACCOUNT)),
            restart=True,
        )  # fmt: skip

    def start_ccm(self) -> None:
        """The cloud-controller-manager; without an election, so that one started again works at once."""
        start_module(
            self.programs, CCM, "ccm", "--cloud-config", str(self._cloud_config("ccm", CCM_TOKEN, CCM_SECRET)),
            "--kubeconfig", str(self.kubeconfig(CCM_ACCOUNT)), "--leader-elect=false", restart=True,
        )  # fmt: skip

    def start_sidecars(self) -> None:
        """Those that the controller's capabilities call for; raises BenchError when it does not tell them."""
        arguments = {
            "csi-provisioner": [
                "--default-fstype=ext4", "--enable-capacity", "--capacity-ownerref-level=-1",
                "--capacity-poll-interval=5s", "--extra-create-metadata", "--timeout=60s",
                "--retry-interval-start=500ms", "--retry-interval-max=10s",
            ],
            "csi-attacher": [
                "--default-fstype=ext4", "--timeout=60s", "--retry-interval-start=500ms", "--retry-interval-max=10s",
            ],
            "csi-resizer": [
                "--handle-volume-inuse-error=false", "--timeout=60s", "--retry-interval-start=500ms",
                "--retry-interval-max=10s",
            ],
        }  # fmt: skip
        for name in SIDECARS:
            self._start_sidecar(name, *arguments[name])
        # This one ends at once with a driver that does not offer snapshots.
        if csi_pb2.ControllerServiceCapability.RPC.CREATE_DELETE_SNAPSHOT in self._capabilities():
            self._start_sidecar(SNAPSHOTTER, "--timeout=60s", "--retry-interval-start=500ms")

    def start_snapshot_controller(self) -> None:
        """The cluster's own half of snapshots."""
        config = self.kubeconfig(SNAPSHOT_ACCOUNT)
        program = str(self.tools.path(SNAPSHOT_CONTROLLER))
        self.programs.start(
            SNAPSHOT_CONTROLLER, program, f"--kubeconfig={config}", "--leader-election=false", restart=True
        )

    def _capabilities(self) -> set[int]:
        """What the controller offers."""
        self.programs.wait_until("the controller listens", self.csi_socket.is_socket, START_S, log_of=CONTROLLER)
        with grpc.insecure_channel(f"unix://{self.csi_socket}") as channel:
            answer = csi_pb2_grpc.ControllerStub(channel).ControllerGetCapabilities(
                csi_pb2.ControllerGetCapabilitiesRequest(), timeout=START_S, wait_for_ready=True
            )
        return {each.rpc.type for each in answer.capabilities}

    def _start_sidecar(self, name: str, *arguments: str) -> None:
        self.programs.start(
            name, str(self.tools.path(name)), f"--csi-address={self.csi_socket}",
            f"--kubeconfig={self.kubeconfig(CONTROLLER_ACCOUNT)}", "--leader-election=false",
            "--kube-api-qps=50", "--kube-api-burst=100", "--v=3", *arguments,
            restart=True, environment={"NAMESPACE": DRIVER_NAMESPACE, "POD_NAME": "bench"},
        )  # fmt: skip

    def _cloud_config(self, name: str, token_id: str, token_secret: str) -> Path:
        path = self.folder / f"{name}-cloud-config.yaml"
        config = cloud_config(self.proxmox.url, self.proxmox.ca_file, token_id, token_secret)
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        path.chmod(0o600)
        return path
