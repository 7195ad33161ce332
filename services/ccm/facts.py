"""What the CCM knows of one VM, in the terms Kubernetes asks for. Pure: a reference and a configuration in, facts out.

The same facts serve initialisation and whatever later compares a Node with its VM.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ccm.labels import is_label_value
from ccm.smbios import Smbios, parse_smbios
from pvekit.provider_id import ProviderId, format_provider_id

Provider = Literal["default", "capmox"]
"""Which providerID is written on a Node that has none: `proxmox://region/vmid`, or Cluster API's `proxmox://uuid`."""


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """One VM. `host` is the Proxmox host it was seen on, `uuid` as its `smbios1` writes it ("" if it has none)."""

    region: str
    vmid: int
    name: str
    host: str
    uuid: str
    instance_type: str

    def provider_id(self, provider: Provider) -> str:
        """The providerID for a Node that has none yet."""
        if provider == "capmox":
            return format_provider_id(ProviderId(uuid=self.uuid))
        return format_provider_id(ProviderId(region=self.region, vmid=self.vmid))


def facts_for(*, region: str, vmid: int, name: str, host: str, config: Mapping[str, Any]) -> InstanceFacts:
    """From a VM's configuration (`GET …/config?current=1`) and where it was read."""
    smbios = parse_smbios(str(config.get("smbios1", "")))
    return InstanceFacts(
        region=region,
        vmid=vmid,
        name=str(config.get("name") or name),
        host=host,
        uuid=smbios.uuid,
        instance_type=_instance_type(smbios, config),
    )


def _instance_type(smbios: Smbios, config: Mapping[str, Any]) -> str:
    """The SMBIOS sku if it is a legal label value, else `<cpus>VCPU-<GiB>GB`, memory rounded down.

    Defaults are qemu-server's: 1 socket, 1 core, 512 MiB. `vcpus`, where set, is the number of CPUs plugged at start.
    Memory is a number of MiB, or `current=<MiB>` since Proxmox VE 8.1.
    """
    if is_label_value(smbios.sku):
        return smbios.sku
    cpus = int(config.get("vcpus") or int(config.get("sockets") or 1) * int(config.get("cores") or 1))
    memory_mib = int(str(config.get("memory") or 512).removeprefix("current=").partition(",")[0])
    return f"{cpus}VCPU-{memory_mib // 1024}GB"
