"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on 127.0.0.1, with RBAC, Node authorisation and an
audit log.

Must not know our services.
"""

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.kube.kube_api import KubeApi
from tests.kube.pki import Authority
from tests.kube.programs import Programs
from tests.kube.toolchain import Toolchain

SERVICE_RANGE = "10.103.0.0/24"
START_S = 60.0


@dataclass
class ControlPlane:
    """One cluster's; `start`, then `kubeconfig` of a user of the group system:masters may be used."""

    folder: Path
    tools: Toolchain
    programs: Programs
    authority: Authority = field(init=False)
    server: str = field(init=False)
    kubeconfig: Path = field(init=False)
    api: KubeApi = field(init=False)

    @property
    def audit_log(self) -> Path:
        """One JSON document a line: who asked for what, and the answer's code."""
        return self.folder / "logs" / "audit.log"

    def start(self) -> None:
        """Starts etcd and the API server; `wait` waits for it."""
        self.authority = Authority(self.folder / "pki")
        api, etcd, peer, self._kcm_port, self._scheduler_port = free_ports(5)
        self.server = f"https://127.0.0.1:{api}"
        admin = self.authority.issue("admin", "admin", groups=["system:masters"])
        self.kubeconfig = self.authority.kubeconfig(self.folder / "kubeconfig", self.server, admin)
        kubectl = self.tools.path("kubectl")
        self.api = KubeApi(self.server, self.authority.ca_file, admin, kubectl, self.kubeconfig)
        etcd_url, peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self.programs.start(
            "etcd", str(self.tools.path("etcd")), "--name=bench", f"--data-dir={self.folder}/etcd",
            "--unsafe-no-fsync", "--log-level=warn", f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}", f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}", f"--initial-cluster=bench={peer_url}",
        )  # fmt: skip
        self._start_apiserver(api, etcd_url)

    def wait(self) -> None:
        """Until the API server is ready."""
        self.programs.wait_until("the API server is ready", self.api.is_ready, START_S, log_of="kube-apiserver")

    def start_controllers(self) -> None:
        """Starts controller-manager and scheduler."""
        keys = self._service_account_keys
        for name, user, port in (
            ("kube-controller-manager", "system:kube-controller-manager", self._kcm_port),
            ("kube-scheduler", "system:kube-scheduler", self._scheduler_port),
        ):
            pair = self.authority.issue(name, user, hosts=["127.0.0.1"])
            config = self.authority.kubeconfig(self.folder / f"{name}.kubeconfig", self.server, pair)
            command = [
                str(self.tools.path(name)), f"--kubeconfig={config}", f"--authentication-kubeconfig={config}",
                f"--authorization-kubeconfig={config}", "--bind-address=127.0.0.1", f"--secure-port={port}",
                f"--tls-cert-file={pair.certificate}", f"--tls-private-key-file={pair.key}", "--leader-elect=false",
            ]  # fmt: skip
            if name == "kube-controller-manager":
                command += [
                    "--cloud-provider=external", "--use-service-account-credentials=true",
                    f"--service-account-private-key-file={keys.key}", f"--root-ca-file={self.authority.ca_file}",
                    # Nodes without a kubelet of their own must stay Ready for as long as a bench lives.
                    "--node-monitor-grace-period=24h",
                ]  # fmt: skip
            self.programs.start(name, *command)

    def audit(self) -> list[dict[str, Any]]:
        """Every answered request so far."""
        lines = self.audit_log.read_text(encoding="utf-8").splitlines() if self.audit_log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def _start_apiserver(self, port: int, etcd_url: str) -> None:
        hosts = ["127.0.0.1", "10.103.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        serving = self.authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        kubelet_client = self.authority.issue("kubelet-client", "apiserver", groups=["system:masters"])
        self._service_account_keys = keys = self.authority.service_account_keys()
        policy = self.folder / "audit-policy.yaml"
        rules = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [
                {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
                {"level": "None"},
            ],
        }
        policy.write_text(yaml.safe_dump(rules), encoding="utf-8")
        self.programs.start(
            "kube-apiserver", str(self.tools.path("kube-apiserver")), f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
            f"--secure-port={port}", f"--tls-cert-file={serving.certificate}", f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.ca_file}", f"--service-account-key-file={keys.certificate}",
            f"--service-account-signing-key-file={keys.key}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICE_RANGE}", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false",
            f"--kubelet-client-certificate={kubelet_client.certificate}",
            f"--kubelet-client-key={kubelet_client.key}", f"--kubelet-certificate-authority={self.authority.ca_file}",
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-mode=blocking",
        )  # fmt: skip


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
