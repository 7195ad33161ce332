"""Settings of the node service: flags, environment (`PVECLOUD_CSI_NODE_…`), `--config` file. Read once, in __main__."""

from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from appkit.cli import ServiceSettings
from appkit.errors import InvalidRequest
from csikit.handles import NodeId, parse_node_id

ENV_PREFIX: Final = "PVECLOUD_CSI_NODE_"


class NodeSettings(ServiceSettings):
    """What one node service is told. Field names are the flags' names."""

    node_id: str
    """`<Node name>` or `<Node name>/<VM number>`; NODE_NAME of the environment when it is not given."""
    csi_address: str = "unix:///csi/csi.sock"
    kubelet_dir: Path = Path("/var/lib/kubelet")
    dev_root: Path = Path("/dev")
    sys_root: Path = Path("/sys")
    kubeconfig: Path | None = None
    kube_server: str = ""
    device_timeout_s: float = Field(default=30.0, gt=0, le=100)
    """How long one call waits for a disk to appear or to grow; kubelet gives up after 120 s and calls again."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long running operations may go on after SIGTERM."""

    @field_validator("node_id")
    @classmethod
    def _check_node_id(cls, value: str) -> str:
        try:
            parse_node_id(value)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("kubelet_dir", "dev_root", "sys_root")
    @classmethod
    def _check_absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError("must be an absolute path")
        return value

    @property
    def node(self) -> NodeId:
        """`node_id`, parsed."""
        return parse_node_id(self.node_id)
