"""Which Proxmox VE clusters there are: the peers' cloud-config file, read as it is, and what this project adds to it.

A region is one Proxmox VE cluster. Keys that the peers document under another spelling than their code reads are read
under both. Only values are checked here; nothing is contacted.
"""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, field_validator, model_validator

from appkit.settings import Settings
from pvekit.header_text import is_header_text

DEFAULT_CONTROLLER_VMID = 9999


class ClusterSettings(Settings):
    """One cluster. `url` may be one address or a list; `urls` is the same. Each ends in /api2/json or gets it appended.

    `timeout_s` is longer than the 30 s after which Proxmox VE's own proxy gives up, so that its answer wins.
    `max_requests` caps the requests in flight to this cluster. Token files are read again when they change.
    """

    region: str = Field(min_length=1, pattern=r"^[^/\s]+$")
    urls: tuple[str, ...] = Field(min_length=1, validation_alias=AliasChoices("urls", "url"))
    ca_file: Path | None = None
    insecure: bool = False
    token_id: str | None = None
    token_id_file: Path | None = None
    token_secret: SecretStr | None = None
    token_secret_file: Path | None = None
    timeout_s: float = Field(default=35.0, gt=0, le=600)
    max_requests: int = Field(default=32, ge=1, le=1024)

    @field_validator("urls", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("urls")
    @classmethod
    def _normal(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_normal_url(url) for url in urls)

    @model_validator(mode="before")
    @classmethod
    def _no_passwords(cls, data: Any) -> Any:
        if isinstance(data, dict) and (data.get("username") or data.get("password")):
            raise ValueError(
                "username and password are not supported: make an API token, give token_id and token_secret"
            )
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if key not in {"username", "password"}}
        return data

    @model_validator(mode="after")
    def _no_clear_text(self) -> "ClusterSettings":
        if not self.insecure and any(url.startswith("http:") for url in self.urls):
            raise ValueError(
                "url: over http the token would cross the network in clear text; use https (insecure: true allows it)"
            )
        return self

    @model_validator(mode="after")
    def _one_token(self) -> "ClusterSettings":
        for inline, file in (("token_id", "token_id_file"), ("token_secret", "token_secret_file")):
            given = [name for name in (inline, file) if getattr(self, name)]
            if len(given) != 1:
                raise ValueError(f"give exactly one of {inline} and {file}")
        for name in ("token_id", "token_secret"):
            value = getattr(self, name)
            if value and not is_header_text(value):
                raise ValueError(f"{name} must be one word of printable ASCII characters")
        return self


class NetworkSettings(Settings):
    """`features.network` of the peer CCM: where Node addresses come from. Lists are separated by commas or blanks."""

    mode: Literal["default", "qemu", "auto"] = "default"
    ipv6_support_disabled: bool = False
    external_ip_cidrs: str = ""
    ip_sort_order: str = ""


_FLAT_NETWORK_KEYS = ("ipv6_support_disabled", "external_ip_cidrs", "ip_sort_order")


class FeatureSettings(Settings):
    """`features`: `provider` capmox finds VMs by SMBIOS uuid; `controller_vmid` owns every volume and is no VM."""

    provider: Literal["default", "capmox"] = "default"
    controller_vmid: int = Field(
        default=DEFAULT_CONTROLLER_VMID,
        validation_alias=AliasChoices("controllerVmID", "controllerVMID", "controller_vmid"),
    )
    ha_group: bool = False
    force_update_labels: bool = False
    network: NetworkSettings = NetworkSettings()

    @model_validator(mode="before")
    @classmethod
    def _documented_shape(cls, data: Any) -> Any:
        """The CCM's page shows `network: qemu` with the other keys beside it; its code wants a mapping. Both work."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        flat = {key: data.pop(key) for key in _FLAT_NETWORK_KEYS if key in data}
        network = data.get("network")
        if isinstance(network, str):
            network = {"mode": network}
        if flat:
            network = {**flat, **(network if isinstance(network, dict) else {})}
        if network is not None:
            data["network"] = network
        return data

    @field_validator("controller_vmid")
    @classmethod
    def _no_small_id(cls, value: int) -> int:
        if value == 0:
            return DEFAULT_CONTROLLER_VMID
        if not 100 < value <= 999_999_999:
            raise ValueError("must be greater than 100 and at most 999999999")
        return value


def _none_as_default(value: Any) -> Any:
    return {} if value is None else value


class CloudConfig(Settings):
    """The whole file. Regions are unique."""

    features: Annotated[FeatureSettings, BeforeValidator(_none_as_default)] = FeatureSettings()
    clusters: tuple[ClusterSettings, ...] = Field(min_length=1)

    @field_validator("clusters")
    @classmethod
    def _unique_regions(cls, clusters: tuple[ClusterSettings, ...]) -> tuple[ClusterSettings, ...]:
        regions = [cluster.region for cluster in clusters]
        twice = sorted({region for region in regions if regions.count(region) > 1})
        if twice:
            raise ValueError(f"two clusters have the same region: {', '.join(twice)}")
        return clusters


def _normal_url(url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address like https://pve1.example.com:8006/api2/json")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must not contain a user, a query or a fragment")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path or '/api2/json'}"
