from pathlib import Path

import pytest

from csi_node.host.smbios import find_vmid, parse_vmid, system_serial


def structure(kind: int, formatted: bytes, *strings: str) -> bytes:
    text = b"\0".join(string.encode() for string in strings) + b"\0\0" if strings else b"\0\0"
    return bytes([kind, 4 + len(formatted), 0, 0]) + formatted + text


def table(serial: str) -> bytes:
    bios = structure(0, bytes([1, 2, 0, 0]), "SeaBIOS", "1.16")
    system = structure(1, bytes([1, 2, 3, 4]) + bytes(19), "QEMU", "Standard PC", "pc-i440fx", serial)
    return bios + structure(32, bytes(7)) + system + structure(127, b"")


@pytest.mark.parametrize(
    ("serial", "vmid"),
    [
        ("h=pve1;i=112", 112),
        ("H=pve1;I=112", 112),
        ("i=999999999", 999999999),
        ("i=99", None),
        ("i=1000000000", None),
        ("i=", None),
        ("i=x1", None),
        ("h=pve1", None),
        ("", None),
        ("Not Specified", None),
        (" i=112 ; x", 112),
    ],
)
def test_vmid(tmp_path: Path, serial: str, vmid: int | None) -> None:
    assert parse_vmid(serial) == vmid
    file = tmp_path / "firmware/dmi/tables/DMI"
    file.parent.mkdir(parents=True)
    file.write_bytes(table(serial or "x"))
    assert find_vmid(tmp_path) == vmid


def test_no_table_and_broken_tables(tmp_path: Path) -> None:
    assert find_vmid(tmp_path) is None
    whole = table("i=112")
    assert system_serial(whole) == "i=112"
    for length in range(len(whole)):
        assert system_serial(whole[:length]) in ("", "i=112")
    assert system_serial(structure(1, bytes(4))) == ""
    assert system_serial(structure(1, bytes([1, 2, 3, 9]), "one")) == ""
    assert system_serial(bytes(100)) == ""
