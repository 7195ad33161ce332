"""Named formats of parameters, with Proxmox VE's own wording of what is wrong (9.2, recorded and PVE::JSONSchema).

Must not know which parameter uses which format; `data/api-schema.json` says that.
"""

import re
from collections.abc import Callable

_CONTENT_TYPES = frozenset(["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"])
_LIST_SPLIT = re.compile(r"[,;\s\0]+")

Check = Callable[[str], str | None]


def split_list(text: str) -> list[str]:
    """Split as Proxmox VE splits every list parameter: comma, semicolon, blank, NUL."""
    return [part for part in _LIST_SPLIT.split(text) if part]


def _pattern(expression: str, complaint: str) -> Check:
    compiled = re.compile(expression)

    def check(value: str) -> str | None:
        return None if compiled.fullmatch(value) else complaint.format(value=value)

    return check


def _urlencoded(value: str) -> str | None:
    return None if re.fullmatch(r"[-%a-zA-Z0-9_.!~*'()]*", value) else f"invalid urlencoded string: {value}"


def _tag(value: str) -> str | None:
    return None if re.fullmatch(r"(?i)[a-z0-9_][a-z0-9_\-+.]*", value) else "invalid characters in tag"


def _content(value: str) -> str | None:
    return None if value in _CONTENT_TYPES else f"invalid content type '{value}'"


def _volume_id_or_path(value: str) -> str | None:
    if value in ("none", "cdrom") or value.startswith("/"):
        return None
    return _volume_id(value)


def _volume_id(value: str) -> str | None:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9\-_.]*[A-Za-z0-9]:.+", value):
        return None
    return f"unable to parse volume ID '{value}'\n"


def _boot(value: str) -> str | None:
    if re.fullmatch(r"[acdn]{1,4}", value):
        return None
    if not value.startswith("order=") or not value[6:]:
        return None
    for device in split_list(value[6:]):
        if not re.fullmatch(r"(?:scsi|virtio|sata|ide|net|usb|hostpci)\d+", device):
            return f"invalid boot device '{device}'"
    return None


_HOTPLUG = frozenset(["network", "disk", "cpu", "memory", "usb", "cloudinit"])


def _hotplug(value: str) -> str | None:
    if value in ("0", "1"):
        return None
    unknown = [part for part in split_list(value) if part not in _HOTPLUG]
    return "value does not look like a valid hotplug feature list" if unknown else None


_DNS = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?")


def _dns_name(value: str) -> str | None:
    return None if _DNS.fullmatch(value) else "value does not look like a valid DNS name"


def _storage_id(value: str) -> str | None:
    if len(value) < 2:
        return f"storage ID '{value}' cannot be shorter than 2 characters"
    if not re.fullmatch(r"(?i)[a-z][a-z0-9\-_.]*[a-z0-9]", value):
        return f"storage ID '{value}' contains illegal characters"
    return None


_CPU_TYPES = frozenset(
    [
        "486",
        "athlon",
        "core2duo",
        "coreduo",
        "host",
        "kvm32",
        "kvm64",
        "max",
        "pentium",
        "pentium2",
        "pentium3",
        "phenom",
        "qemu32",
        "qemu64",
        "Broadwell",
        "Cascadelake-Server",
        "Conroe",
        "Cooperlake",
        "EPYC",
        "EPYC-Genoa",
        "EPYC-Milan",
        "EPYC-Rome",
        "GraniteRapids",
        "Haswell",
        "IvyBridge",
        "Nehalem",
        "Penryn",
        "SandyBridge",
        "SapphireRapids",
        "Skylake-Client",
        "Skylake-Server",
        "Westmere",
        "x86-64-v2",
        "x86-64-v2-AES",
        "x86-64-v3",
        "x86-64-v4",
    ]
)


def _cpu(value: str) -> str | None:
    name = value.split(",")[0].removeprefix("cputype=")
    base = re.sub(r"-(?:v\d+|IBRS|noTSX|noTSX-IBRS)$", "", name)
    if name.startswith("custom-") or name in _CPU_TYPES or base in _CPU_TYPES:
        return None
    return f"Built-in cputype '{name}' is not defined (missing 'custom-' prefix?)"


_CONFIG_ID = r"[a-zA-Z][a-zA-Z0-9_\-]+"
FORMATS: dict[str, Check] = {
    "pve-vmid": _pattern(r"[1-9][0-9]{2,8}", "value does not look like a valid VM ID"),
    "pve-node": _pattern(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?", "value does not look like a valid node name"),
    "pve-configid": _pattern(_CONFIG_ID, "invalid configuration ID '{value}'"),
    "pve-storage-id": _storage_id,
    "pve-storage-vgname": _pattern(
        r"(?i)[a-z0-9][-_+.a-z0-9]*[-_+a-z0-9]", "lvm name '{value}' contains illegal characters"
    ),
    "pve-vm-cpu-conf": _cpu,
    "dns-name": _dns_name,
    "urlencoded": _urlencoded,
    "pve-tag": _tag,
    "pve-storage-content": _content,
    "pve-volume-id": _volume_id,
    "pve-volume-id-or-qm-path": _volume_id_or_path,
    "pve-qm-boot": _boot,
    "pve-hotplug-features": _hotplug,
    "pve-poolid": _pattern(
        r"[A-Za-z0-9._\-]+(?:/[A-Za-z0-9._\-]+)*", "value '{value}' does not look like a valid pool name"
    ),
    "pve-roleid": _pattern(r"[A-Za-z0-9._\-]+", "value '{value}' does not look like a valid role ID"),
    "pve-userid": _pattern(
        r"[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+", "value '{value}' does not look like a valid user name"
    ),
    "mac-addr": _pattern(
        r"(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){5}", "value does not look like a valid unicast MAC address"
    ),
    "pve-bridge-id": _pattern(r"[-_.\w\d]+", "invalid bridge '{value}'"),
    "ipv4": _pattern(r"\d{1,3}(?:\.\d{1,3}){3}", "value does not look like a valid IPv4 address"),
}


def check_format(name: str, value: str) -> str | None:
    """Why `value` does not have the format `name`, or None. `x-list` applies x to each part, `x-opt` allows "".

    An unknown format passes: the simulator is lenient where it knows no rule.
    """
    if name in FORMATS:
        return FORMATS[name](value)
    if name.endswith("-opt"):
        return check_format(name[:-4], value) if value else None
    if name.endswith("-list") and name[:-5] in FORMATS:
        for part in split_list(value):
            if (why := FORMATS[name[:-5]](part)) is not None:
                return why
    return None
