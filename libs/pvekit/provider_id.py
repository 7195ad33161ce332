"""spec.providerID of a Node: every form the peers ever wrote. Pure.

proxmox://<region>/<vmid>   written by this project and by the peer CCM
proxmox:///<vmid>           region not known (read only)
proxmox://<uuid>            Cluster API for Proxmox (capmox): the VM's SMBIOS uuid; some templates put quotes around it
"""

import re
from dataclasses import dataclass

from appkit.errors import InvalidRequest

SCHEME = "proxmox://"

_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_REGION_VMID = re.compile(r"(?P<region>[^/\s]*)/(?P<vmid>[1-9][0-9]{2,8})")


@dataclass(frozen=True, slots=True)
class ProviderId:
    """Either `vmid` (with `region`, "" when not known) or `uuid` is set, never both. `uuid` keeps its case."""

    region: str = ""
    vmid: int | None = None
    uuid: str | None = None


def is_proxmox(text: str) -> bool:
    """Whether a providerID is of this scheme, well-formed or not. Empty and other clouds' ids are not."""
    return _unquoted(text).startswith(SCHEME)


def parse_provider_id(text: str) -> ProviderId:
    """The parts of a providerID of this scheme. InvalidRequest for anything else, naming the forms that are read."""
    rest = _unquoted(text)
    if rest.startswith(SCHEME):
        rest = rest[len(SCHEME) :]
        if match := _REGION_VMID.fullmatch(rest):
            return ProviderId(region=match["region"], vmid=int(match["vmid"]))
        if _UUID.fullmatch(rest):
            return ProviderId(uuid=rest)
    raise InvalidRequest(
        f"providerID {text!r} is not understood: expected proxmox://<region>/<vmid> or proxmox://<SMBIOS uuid>"
    )


def format_provider_id(identity: ProviderId) -> str:
    """The inverse of `parse_provider_id`."""
    if identity.uuid is not None:
        return f"{SCHEME}{identity.uuid}"
    return f"{SCHEME}{identity.region}/{identity.vmid}"


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")
