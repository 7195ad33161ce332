"""Golden tables of the pure codecs: scalars, UPIDs, provider ids, drive strings, API paths, presence."""

from typing import Any

import pytest

from appkit.errors import InvalidRequest
from pvekit import scalars
from pvekit.api_path import api_path, check_path, route_of
from pvekit.drives import Drive, free_scsi_slot, is_drive_key, is_unused_key, parse_size, scsi_slot
from pvekit.provider_id import ProviderId, format_provider_id, is_proxmox, parse_provider_id
from pvekit.upid import Upid


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        ("5", 5),
        ("512", 512),
        (5.9, 5),
        ("5.0", 5),
        (True, 1),
        ("-3", -3),
        ("", None),
        (None, None),
        ([], None),
        ("1796066931", 1796066931),
        ("abc", None),
        ("nan", None),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_as_int(value: Any, expected: int | None) -> None:
    assert scalars.as_int(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, True),
        ("1", True),
        (0, False),
        ("0", False),
        (True, True),
        ("yes", True),
        ("off", False),
        ("", False),
        (None, False),
        ("maybe", False),
        ("ON", True),
    ],
)
def test_as_bool(value: Any, expected: bool) -> None:
    assert scalars.as_bool(value) is expected


def test_as_str_and_float_and_words() -> None:
    odd: list[Any] = ["x", 5, True, None, []]
    assert [scalars.as_str(value) for value in odd] == ["x", "5", "1", None, None]
    assert [scalars.as_float(value) for value in ("1.5", 2, None, "x")] == [1.5, 2.0, None, None]
    assert scalars.as_words("b; a,c") == ("a", "b", "c")
    assert scalars.as_words(["b", "a"]) == ("a", "b")
    assert scalars.as_words(None) == ()


def test_parameters_go_out_as_proxmox_takes_them() -> None:
    assert [scalars.parameter(value) for value in (True, False, 5, "x")] == ["1", "0", "5", "x"]


UPIDS = [
    ("UPID:pve1:0000027B:0001C857:6B0DCE1A:imgdel:9999@local:csi@pve!csi:", "imgdel", "9999@local", "csi@pve!csi"),
    ("UPID:pve1:00000345:0001EBD8:6B0DCE75:qmconfig:100:csi@pve!csi:", "qmconfig", "100", "csi@pve!csi"),
    (
        "UPID:pve-3:00000345:0001EBD8:6B0DCE75:qmmove:100-scsi0>101-scsi5:root@pam:",
        "qmmove",
        "100-scsi0>101-scsi5",
        "root@pam",
    ),
    ("UPID:pve1:00000001:00000001:6B000000:imgcopy::root@pam:", "imgcopy", "", "root@pam"),
]


@pytest.mark.parametrize(("text", "kind", "name", "user"), UPIDS)
def test_upid(text: str, kind: str, name: str, user: str) -> None:
    upid = Upid.parse(text)
    assert (upid.type, upid.id, upid.user) == (kind, name, user)
    assert upid.starttime == int(text.split(":")[4], 16)
    assert str(upid) == text


@pytest.mark.parametrize("text", ["", "garbage", "UPID:", "UPID:pve1:1:2:3:x:y:z:", "local:9999/x.raw"])
def test_no_upid(text: str) -> None:
    with pytest.raises(ValueError, match="not a UPID"):
        Upid.parse(text)


UUID = "d1e1f932-103e-47f5-aa4b-be08db4fa933"


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("proxmox://cluster-1/123", ProviderId("cluster-1", 123)),
        ("proxmox:///123", ProviderId("", 123)),
        (f"proxmox://{UUID}", ProviderId(uuid=UUID)),
        (f"proxmox://{UUID.upper()}", ProviderId(uuid=UUID.upper())),
    ],
)
def test_provider_id(text: str, identity: ProviderId) -> None:
    assert is_proxmox(text)
    assert parse_provider_id(text) == identity
    assert format_provider_id(identity) == text


def test_provider_id_in_quotes() -> None:
    assert parse_provider_id(f"'proxmox://{UUID}'") == ProviderId(uuid=UUID)


@pytest.mark.parametrize(
    "text", ["", "aws:///i-1", "proxmoxve://r1/101", "proxmox://r1/99", "proxmox://r1/1/2", "proxmox://r1"]
)
def test_no_provider_id(text: str) -> None:
    with pytest.raises(InvalidRequest, match="providerID"):
        parse_provider_id(text)


LINKED_CLONE = "local:140/base-140-disk-0.qcow2/141/vm-141-disk-0.qcow2"
DRIVES = [
    ("local:9999/vm-9999-x.raw,size=1G,wwn=0x5", "local:9999/vm-9999-x.raw", {"size": "1G", "wwn": "0x5"}),
    ("local-lvm:vm-9999-pvc-1,backup=0,iothread=1", "local-lvm:vm-9999-pvc-1", {"backup": "0", "iothread": "1"}),
    (LINKED_CLONE, LINKED_CLONE, {}),
    ("none,media=cdrom", "none", {"media": "cdrom"}),
]


@pytest.mark.parametrize(("text", "volid", "options"), DRIVES)
def test_drive(text: str, volid: str, options: dict[str, str]) -> None:
    drive = Drive.parse(text)
    assert (drive.volid, drive.options) == (volid, options)
    assert Drive.parse(drive.format()) == drive
    assert drive.format() == text


def test_drive_forms_that_are_read_but_not_written() -> None:
    assert Drive.parse("file=local:1/x.raw,ssd=1") == Drive("local:1/x.raw", {"ssd": "1"})
    assert Drive.parse("ssd=1,file=local:1/x.raw").volid == "local:1/x.raw"
    assert Drive("local:x", {"wwn": "0x1", "backup": "0"}).format() == "local:x,backup=0,wwn=0x1"
    with pytest.raises(ValueError, match="without a volume"):
        Drive.parse("size=1G")


def test_drive_properties() -> None:
    drive = Drive.parse("local:9999/x.raw,size=52429K")
    assert (drive.storage, drive.size_bytes, drive.is_empty) == ("local", 52429 * 1024, False)
    assert Drive("/dev/sdb").storage == ""
    assert not Drive.parse("local:iso/a.iso,media=cdrom").is_empty
    assert Drive.parse("none,media=cdrom").is_empty
    assert Drive.parse("local:x,size=odd").size_bytes is None
    assert len({Drive("a:b"), Drive("a:b"), Drive("a:c")}) == 2


@pytest.mark.parametrize(
    ("text", "size"), [("1G", 1 << 30), ("0", 0), ("0.5G", 1 << 29), ("3T", 3 << 40), ("64M", 64 << 20)]
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_keys_and_slots() -> None:
    assert [is_drive_key(key) for key in ("scsi0", "virtio15", "scsihw", "scsi01", "unused0", "net0")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert is_unused_key("unused3")
    assert not is_unused_key("unused")
    assert [scsi_slot(key) for key in ("scsi7", "virtio7", "scsihw")] == [7, None, None]
    assert free_scsi_slot({"scsi0", "scsi1", "scsi3"}) == 2
    assert free_scsi_slot(set()) == 1
    assert free_scsi_slot({f"scsi{n}" for n in range(1, 31)}) is None


def test_api_path_encodes_each_part() -> None:
    path = api_path("nodes", "pve1", "storage", "local", "content", "local:9999/vm-9999-x.raw")
    assert path == "/nodes/pve1/storage/local/content/local%3A9999%2Fvm-9999-x.raw"
    assert route_of(path) == "/nodes/{node}/storage/{storage}/content/{volume}"
    check_path(path)


@pytest.mark.parametrize("parts", [("nodes", "", "qemu"), ("nodes", ".."), ("nodes", ".")])
def test_api_path_refuses_what_would_address_something_else(parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="empty or dotted"):
        api_path(*parts)


@pytest.mark.parametrize("path", ["/nodes//qemu/100/config", "nodes", "/nodes/", "/a?b", "/../access"])
def test_check_path(path: str) -> None:
    with pytest.raises(ValueError, match="not an API path"):
        check_path(path)


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/version", "/version"),
        ("/nodes/pve1/qemu/100/status/current", "/nodes/{node}/qemu/{vmid}/status/current"),
        ("/nodes/nodes/tasks/UPID%3Ax/status", "/nodes/{node}/tasks/{upid}/status"),
        ("/storage/local", "/storage/{storage}"),
        ("/cluster/resources", "/cluster/resources"),
    ],
)
def test_route_of(path: str, route: str) -> None:
    assert route_of(path) == route
