"""What a VM tells its guest about itself: the `smbios1` option of a VM's configuration, and how UUIDs are compared.

Pure. The UUID is the one thing that Proxmox (`smbios1`) and the kubelet (`status.nodeInfo.systemUUID`, read from DMI)
both know about a machine, so nothing here is lenient about *which* UUID it is, only about how it is written.
"""

import base64
import binascii
import re
from dataclasses import dataclass

_HEX32 = re.compile(r"[0-9a-f]{32}")
_NO_UUID = frozenset({"0" * 32, "f" * 32})
"""Firmware writes these when it has no UUID; two machines that carry them are not the same machine."""


@dataclass(frozen=True)
class Smbios:
    """The two items of `smbios1` that matter here; `uuid` as written, `sku` decoded; "" when not set."""

    uuid: str = ""
    sku: str = ""


def parse_smbios(option: str) -> Smbios:
    """Read `uuid=…,sku=…,base64=1`.

    Values other than the UUID are base64 when `base64=1` (qemu-server writes them so, with `=` padding). Without the
    flag the text is taken as base64 only if that yields readable text: the Go cloud-controller-manager decoded it
    regardless of the flag.
    """
    items = dict(part.split("=", 1) for part in option.split(",") if "=" in part)
    sku = items.get("sku", "").strip()
    decoded = _decode(sku)
    if decoded is None:
        decoded = "" if items.get("base64") == "1" else sku
    return Smbios(uuid=items.get("uuid", "").strip(), sku=decoded)


def canonical_uuid(text: str) -> str:
    """32 lower-case hex digits, or "" when `text` is no UUID or one of the values that mean "none"."""
    digits = text.strip().strip("{}").replace("-", "").lower()
    return digits if _HEX32.fullmatch(digits) and digits not in _NO_UUID else ""


def swapped_uuid(canonical: str) -> str:
    """The same 16 bytes with the first three groups byte-swapped, as readers of SMBIOS before 2.6 print them."""
    raw = bytes.fromhex(canonical)
    return (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex()


def same_machine(node_uuid: str, vm_uuid: str) -> bool:
    """Whether both name one machine, whatever their case, dashes or byte order. Two absent UUIDs are not equal."""
    node, machine = canonical_uuid(node_uuid), canonical_uuid(vm_uuid)
    return bool(node and machine) and machine in (node, swapped_uuid(node))


def _decode(value: str) -> str | None:
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return text if text.isprintable() else None
