"""A configuration write, parsed: checks before the file is even looked at, values brought into the file's form.

qemu-server 9, recorded; the order of the checks is the real one. Must not read or change a VM.
"""

import re
from dataclasses import dataclass, field

from tests.pvesim.call import Call
from tests.pvesim.configrights import check_key_rights, check_set_rights, check_storage_rights
from tests.pvesim.drives import contradicts_itself, format_drive, is_drive_key, parse_drive
from tests.pvesim.errors import die, param_error, param_errors
from tests.pvesim.formats import split_list
from tests.pvesim.schema import load
from tests.pvesim.sshkeys import check_ssh_keys

_CONTROL = frozenset(
    ["node", "vmid", "digest", "delete", "revert", "force", "skiplock", "background_delay", "import-working-storage"]
)


@dataclass
class Change:
    """A parsed request: `sets` holds normalised values, `force` frees what is detached."""

    sets: dict[str, str]
    deletes: list[str]
    reverts: list[str]
    digest: str | None
    force: bool
    skiplock: bool
    line: str
    modified: set[str] = field(default_factory=set)


def option_exists(key: str) -> bool:
    """Whether the configuration has such an option."""
    params = load()["/nodes/{node}/qemu/{vmid}/config"]["PUT"]["params"]
    if key in params and key not in _CONTROL:
        return True
    match = re.fullmatch(r"([a-z]+)\d+", key)
    return match is not None and f"{match[1]}[n]" in params


def parse_change(call: Call) -> Change:
    """Everything that is checked before the configuration is even looked at."""
    params = dict(call.params)
    line = "".join(
        f" -{key} {value}"
        for key, value in sorted(params.items())
        if key not in ("node", "vmid", "digest", "background_delay")
    )
    if params.get("skiplock") == "1" and not call.who.is_root:
        raise param_error(skiplock="Only root may use this option.")
    sets = {key: value for key, value in params.items() if key not in _CONTROL}
    if not sets and not params.get("delete") and not params.get("revert"):
        raise die("no options specified")
    if "cdrom" in sets:
        sets["ide2"] = sets.pop("cdrom") + ",media=cdrom"
    reverts = split_list(params.get("revert", ""))
    for key in reverts:
        if not option_exists(key):
            raise param_error(revert=f"unknown option '{key}'")
        if key in sets:
            raise param_error(delete=f"you can't use '-{key}' and -revert {key}' at the same time")
    deletes = split_list(params.get("delete", ""))
    for key in deletes:
        if key in sets:
            raise param_error(delete=f"you can't use '-{key}' and -delete {key}' at the same time")
        if key in reverts:
            raise param_error(revert=f"you can't use '-delete {key}' and -revert {key}' at the same time")
        if not option_exists(key):
            raise param_error(delete=f"unknown option '{key}'")
    normalize_values(call, sets)
    check_key_rights(call, call.vmid, deletes)
    check_key_rights(call, call.vmid, sets)
    check_storage_rights(call, call.vmid, sets)
    check_set_rights(call, sets)
    return Change(
        sets, deletes, reverts, params.get("digest"), params.get("force") == "1", params.get("skiplock") == "1", line
    )


def normalize_values(call: Call, sets: dict[str, str]) -> None:
    """Bring values into the form the file has; MAC addresses are made up here."""
    for key, value in sets.items():
        if is_drive_key(key):
            drive = parse_drive(value)
            if contradicts_itself(drive):
                raise param_errors({key: "unable to parse drive options"})
            if drive.file in ("none", "cdrom") and "media" not in drive.options:
                drive = drive.with_options(media="cdrom")
            sets[key] = format_drive(drive)
        elif re.fullmatch(r"net\d+", key):
            sets[key] = _normalize_net(call, value)
        elif key == "tags":
            sets[key] = ";".join(sorted({tag.lower() for tag in split_list(value)}))
        elif key == "sshkeys":
            check_ssh_keys(value)
        elif key == "hookscript":
            raise param_error(hookscript=f"script '{value}' does not exist\n")


_MAC = re.compile(r"(?i)(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def _normalize_net(call: Call, value: str) -> str:
    parts = value.split(",")
    if not any("=" in part and _MAC.fullmatch(part.split("=")[1]) for part in parts):
        parts[0] = f"{parts[0].removeprefix('model=')}={_made_up_mac(call)}"
    return ",".join(parts)


def new_mac(call: Call, value: str) -> str:
    """A network device as a clone has it: another address."""
    return _MAC.sub(_made_up_mac(call), value, count=1)


def _made_up_mac(call: Call) -> str:
    rng = call.world.rng
    return str(call.world.options["mac_prefix"]) + "".join(f":{rng.randrange(256):02X}" for _ in range(3))
