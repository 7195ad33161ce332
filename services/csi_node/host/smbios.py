"""The VM's own number, as Proxmox may have written it into the SMBIOS serial number (`h=<host>;i=<vmid>`)."""

from collections.abc import Iterator
from pathlib import Path

_SYSTEM_INFORMATION = 1
_SERIAL_INDEX_OFFSET = 7
_END_OF_TABLE = 127


def find_vmid(sys_root: Path) -> int | None:
    """The VM number, or None when there is no SMBIOS table, or its serial number does not carry one."""
    try:
        table = (sys_root / "firmware" / "dmi" / "tables" / "DMI").read_bytes()
    except OSError:
        return None
    return parse_vmid(system_serial(table))


def parse_vmid(serial: str) -> int | None:
    """Key `i` of the serial number, between 100 and 999999999 (the numbers Proxmox gives to VMs)."""
    for part in serial.lower().split(";"):
        key, _, value = part.strip().partition("=")
        if key == "i" and value.isascii() and value.isdecimal() and 100 <= int(value) <= 999_999_999:
            return int(value)
    return None


def system_serial(table: bytes) -> str:
    """Serial number of the system (SMBIOS structure type 1); empty when the table does not have it."""
    for formatted, strings in _structures(table):
        if formatted[0] == _SYSTEM_INFORMATION and len(formatted) > _SERIAL_INDEX_OFFSET:
            index = formatted[_SERIAL_INDEX_OFFSET]
            return strings[index - 1].decode("ascii", errors="replace") if 0 < index <= len(strings) else ""
    return ""


def _structures(table: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Each structure's formatted part, whose length is its second byte, and its strings, which end with two zeros."""
    at = 0
    while at + 4 <= len(table):
        length = table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < 4 or end < 0 or table[at] == _END_OF_TABLE:
            return
        yield table[at : at + length], table[at + length : end].split(b"\0")
        at = end + 2
