"""Settings of the CSI controller: flags, environment (`PVECLOUD_CSI_CONTROLLER_…`), `--config` file; cloud-config.

Read once, in __main__. Field names are the flags' names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from appkit.cli import ServiceSettings
from appkit.settings import SettingsError, load
from kubekit.sessions import KubeSettings
from pvekit.settings import CloudConfig

ENV_PREFIX: Final = "PVECLOUD_CSI_CONTROLLER_"
# Set by the kubelet in every Pod: there is a service account to use.
IN_CLUSTER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"


class ControllerSettings(ServiceSettings):
    """What one process of the controller is told; times in seconds."""

    cloud_config: Path
    csi_address: str = "unix:///csi/csi.sock"
    """Empty: no socket; calls come from the same process."""
    kubeconfig: Path | None = None
    kube_server: str | None = None
    in_cluster: bool = False
    """Use the Pod's own service account when neither kubeconfig nor kube_server is given."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long running calls may go on after SIGTERM."""

    @property
    def kube(self) -> KubeSettings | None:
        """How the API server is reached; None: Kubernetes is not asked, and VMs must be named like their nodes."""
        if self.kubeconfig is None and self.kube_server is None and not self.in_cluster:
            return None
        return KubeSettings(kubeconfig=self.kubeconfig, server=self.kube_server)


@dataclass(frozen=True)
class Loaded:
    """Both files, checked."""

    settings: ControllerSettings
    cloud: CloudConfig


def load_settings(*, config: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Loaded:
    """Read and check everything; raises SettingsError with the problems of both files."""
    problems: list[str] = []
    settings: ControllerSettings | None = None
    cloud: CloudConfig | None = None
    given = dict(overrides) | {"in_cluster": True if env.get(IN_CLUSTER_VARIABLE) else None}
    try:
        settings = load(ControllerSettings, file=config, env=env, env_prefix=ENV_PREFIX, overrides=given)
    except SettingsError as error:
        problems += error.problems
    path = settings.cloud_config if settings is not None else overrides.get("cloud_config")
    if path is not None:
        try:
            cloud = load(CloudConfig, file=Path(path))
        except SettingsError as error:
            problems += error.problems
    if problems or settings is None or cloud is None:
        raise SettingsError(problems)
    return Loaded(settings, cloud)
