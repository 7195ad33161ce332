"""The service's settings: flags, environment (`PVECLOUD_CCM_…`), `--config` file, and the cloud-config file beside
them.

Read once, in `__main__`; whatever is wrong is reported together. Must not read anything at run time.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, field_validator, model_validator

from appkit.cli import ServiceSettings
from appkit.settings import SettingsError, load
from ccm.labels import is_label_value
from kubekit.sessions import KubeSettings
from pvekit.settings import CloudConfig

ENV_PREFIX: Final = "PVECLOUD_CCM_"

NODE_CONTROLLER: Final = "cloud-node-controller"
LIFECYCLE_CONTROLLER: Final = "cloud-node-lifecycle-controller"
_CONTROLLERS: Final = {
    "cloud-node": NODE_CONTROLLER,
    NODE_CONTROLLER: NODE_CONTROLLER,
    "cloud-node-lifecycle": LIFECYCLE_CONTROLLER,
    LIFECYCLE_CONTROLLER: LIFECYCLE_CONTROLLER,
    "service": "service-lb-controller",
    "service-lb-controller": "service-lb-controller",
    "route": "node-route-controller",
    "node-route-controller": "node-route-controller",
}
"""Aliases and names of the cloud-provider framework; the last two exist there, but not for Proxmox."""


class CcmSettings(ServiceSettings):
    """What one process of the cloud-controller-manager is told. Field names are the flags' names; times in seconds."""

    cloud_config: Path
    kubeconfig: Path | None = None
    kube_server: str | None = None
    controllers: tuple[str, ...] = ("*",)
    concurrent_node_syncs: int = Field(default=10, ge=1)
    secure_port: int = Field(default=0, ge=0, le=65535)
    bind_address: str = ""
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    leader_elect: bool = True
    leader_elect_resource_name: str = Field(default="cloud-controller-manager-proxmox", min_length=1)
    leader_elect_resource_namespace: str = Field(default="kube-system", min_length=1)
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 2.0

    @field_validator("controllers")
    @classmethod
    def _known_controllers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [each for each in value if each != "*" and each.removeprefix("-") not in _CONTROLLERS]
        if unknown:
            names = ", ".join(sorted(_CONTROLLERS))
            raise ValueError(f"no such controller: {', '.join(unknown)}; known are *, {names}")
        return value

    @field_validator("bind_address")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if value:
            ipaddress.ip_address(value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "CcmSettings":
        if not self.leader_elect_lease_duration > self.leader_elect_renew_deadline > self.leader_elect_retry_period > 0:
            raise ValueError("leader_elect_lease_duration > renew_deadline > retry_period > 0 must hold")
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise ValueError("tls_cert_file and tls_private_key_file go together")
        return self

    def runs(self, controller: str) -> bool:
        """Whether `controller` (a name of the framework) is switched on; the more specific entry decides."""
        named = {_CONTROLLERS[each.removeprefix("-")]: each[0] != "-" for each in self.controllers if each != "*"}
        return named.get(controller, "*" in self.controllers)

    @property
    def kube(self) -> KubeSettings:
        """How the API server is reached."""
        return KubeSettings(kubeconfig=self.kubeconfig, server=self.kube_server)


@dataclass(frozen=True)
class Loaded:
    """Both files, checked."""

    settings: CcmSettings
    cloud: CloudConfig


def load_settings(*, config: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Loaded:
    """Read and check everything; raises SettingsError with all problems of both files."""
    problems: list[str] = []
    settings: CcmSettings | None = None
    cloud: CloudConfig | None = None
    try:
        settings = load(CcmSettings, file=config, env=env, env_prefix=ENV_PREFIX, overrides=overrides)
    except SettingsError as error:
        problems += error.problems
    path = settings.cloud_config if settings else overrides.get("cloud_config")
    if path is not None:
        try:
            cloud = load(CloudConfig, file=Path(path))
            problems += [f"{path}: {problem}" for problem in unusable(cloud)]
        except SettingsError as error:
            problems += error.problems
    if problems or settings is None or cloud is None:
        raise SettingsError(problems)
    return Loaded(settings, cloud)


def unusable(cloud: CloudConfig) -> list[str]:
    """What a valid cloud-config asks for that this service cannot do, key first."""
    problems = [
        f"clusters: region {cluster.region!r} cannot be a label value: "
        "letters, digits, '-', '_' and '.', at most 63, letters or digits at both ends"
        for cluster in cloud.clusters
        if not is_label_value(cluster.region)
    ]
    mode = cloud.features.network.mode
    if mode != "default":
        problems.append(
            f"features.network.mode: {mode!r} needs the addresses of the QEMU guest agent, which this version does not "
            "read yet; use 'default' with a kubelet that has --node-ip"
        )
    if cloud.features.ha_group:
        problems.append(
            "features.ha_group: zones that are HA groups are not in this version yet; with false the zone is the host"
        )
    return problems
