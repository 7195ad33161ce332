import re

import pytest

from csi_controller.names import BLOCK_NAME_LIMIT, disk_name, file_name, image_name
from csi_controller.storage_types import storage_type
from csikit.handles import VolumeHandle, parse_handle

UUID = "pvc-6f1c3a52-9d0b-4c64-8b7e-2f6f5a0e1d11"
BLOCK = ("lvm", "lvmthin", "zfspool", "rbd", "drbd")
FILES = ("dir", "nfs", "cifs", "cephfs", "btrfs")


@pytest.mark.parametrize("kind", BLOCK)
def test_block_storages_get_the_peers_name(kind: str) -> None:
    assert disk_name(storage_type(kind), 9999, UUID, "raw") == f"vm-9999-{UUID}"


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("image_format", ["raw", "qcow2"])
def test_file_storages_get_the_peers_name(kind: str, image_format: str) -> None:
    assert disk_name(storage_type(kind), 9999, UUID, image_format) == f"9999/vm-9999-{UUID}.{image_format}"
    assert file_name(storage_type(kind), 9999, UUID, image_format) == f"vm-9999-{UUID}.{image_format}"


def test_a_volume_chain_on_lvm_needs_the_ending() -> None:
    assert disk_name(storage_type("lvm"), 9999, UUID, "qcow2") == f"vm-9999-{UUID}.qcow2"


def test_a_long_name_is_cut_and_told_apart_by_a_hash() -> None:
    kind = storage_type("lvmthin")
    first, second = (image_name(kind, 9999, "x" * 127 + last) for last in "ab")
    assert len(first) == BLOCK_NAME_LIMIT
    assert first != second
    assert first == image_name(kind, 9999, "x" * 127 + "a")


def test_a_long_name_stays_whole_on_file_storages() -> None:
    assert image_name(storage_type("dir"), 9999, "y" * 128) == "vm-9999-" + "y" * 128


@pytest.mark.parametrize("name", ["a/b", "a b", "a,b=c", "ümlaut", "..", "a.raw", "a.b", "x" * 500, "-", "a:b", "\n"])
@pytest.mark.parametrize("kind", ["lvmthin", "dir"])
def test_odd_names_become_safe_and_stay_apart(name: str, kind: str) -> None:
    image = image_name(storage_type(kind), 9999, name)
    assert re.fullmatch(r"vm-9999-[A-Za-z0-9_-]+", image)
    assert image != image_name(storage_type(kind), 9999, name + "2")
    handle = VolumeHandle("r", "h", "s", disk_name(storage_type(kind), 9999, name, "raw"))
    assert parse_handle(str(handle)) == handle
    assert handle.owner_vmid == 9999
    assert handle.volume_name == image


def test_names_are_for_ever() -> None:
    assert image_name(storage_type("rbd"), 9999, "a/b") == "vm-9999-a-b-c14cddc033f64b9d"
