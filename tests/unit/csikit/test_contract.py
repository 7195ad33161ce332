"""Values that are stored in clusters: they may never change, so they stand here a second time."""

import re

import pytest

from appkit.errors import InvalidRequest
from csikit import contract
from csikit.handles import parse_handle

VOLUME = "cluster-1/pve1/local-lvm/vm-9999-pvc-f3b1a6d2-7c55-4a4e-9d3e-6d1f0c5d2a11"


def test_names_are_forever() -> None:
    assert contract.DRIVER_NAME == "csi.proxmox.sinextra.dev"
    assert (contract.TOPOLOGY_REGION, contract.TOPOLOGY_ZONE) == (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
    assert (contract.PUBLISH_DEVICE_PATH, contract.PUBLISH_LUN, contract.PUBLISH_RESIZE_REQUIRED) == (
        "DevicePath",
        "lun",
        "resizeRequired",
    )
    assert contract.SECRET_ENCRYPTION_PASSPHRASE == "encryption-passphrase"
    assert contract.LABEL_MAX_VOLUMES == "csi.proxmox.sinextra.dev/max-volume-attachments"
    assert contract.ANNOTATION_INSTANCE_ID == "proxmox.sinextra.dev/instance-id"


def test_identity_of_a_volume_is_forever() -> None:
    """SHA-256 of `cluster-1/local-lvm/vm-9999-pvc-f3b1…`, computed with sha256sum."""
    handle = parse_handle(VOLUME)
    assert contract.wwn_of(handle) == "0x51f292ed0e3d7b9e"
    assert contract.serial_of(handle) == "1f292ed0e3d7b9e44114"


@pytest.mark.parametrize(
    "same",
    [
        "r/pve1/local/9999/vm-9999-pvc-1.raw",
        "r/pve2/local/9999/vm-9999-pvc-1.raw",
        "r//local/9999/vm-9999-pvc-1.qcow2",
        "r//local/vm-9999-pvc-1",
    ],
)
def test_identity_stays_when_the_volume_moves(same: str) -> None:
    home = parse_handle("r/pve1/local/vm-9999-pvc-1")
    assert contract.wwn_of(parse_handle(same)) == contract.wwn_of(home)
    assert contract.serial_of(parse_handle(same)) == contract.serial_of(home)


@pytest.mark.parametrize(
    "other", ["r2/pve1/local/vm-9999-pvc-1", "r/pve1/ceph/vm-9999-pvc-1", "r/pve1/local/vm-9999-pvc-10"]
)
def test_identity_differs_between_volumes(other: str) -> None:
    home = parse_handle("r/pve1/local/vm-9999-pvc-1")
    assert contract.wwn_of(parse_handle(other)) != contract.wwn_of(home)


def test_shapes() -> None:
    handle = parse_handle(VOLUME)
    assert re.fullmatch(r"0x5[0-9a-f]{15}", contract.wwn_of(handle))
    assert re.fullmatch(r"[0-9a-f]{20}", contract.serial_of(handle))


def test_device_path_and_back() -> None:
    wwn = contract.wwn_of(parse_handle(VOLUME))
    path = contract.device_path(wwn)
    assert path == f"/dev/disk/by-id/wwn-{wwn}"
    assert contract.wwn_from_device_path(path) == wwn
    assert contract.device_path(wwn.upper().replace("0X", "0x")) == path


def test_reads_the_slot_names_of_the_peer() -> None:
    assert contract.wwn_from_device_path("/dev/disk/by-id/wwn-0x5056432d49443031") == "0x5056432d49443031"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/dev/sda",
        "0x5056432d49443031",
        "/dev/disk/by-id/wwn-",
        "/dev/disk/by-id/wwn-0x5056",
        "/dev/disk/by-id/wwn-0x5056432d49443031-part1",
        "/dev/disk/by-id/wwn-0x5056432d4944303g",
        "/dev/disk/by-id/../wwn-0x5056432d49443031",
    ],
)
def test_other_device_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        contract.wwn_from_device_path(path)


@pytest.mark.parametrize("wwn", ["", "5056432d49443031", "0x5056432d4944303", "0xzzzzzzzzzzzzzzzz", "/etc/passwd"])
def test_other_names_are_refused(wwn: str) -> None:
    with pytest.raises(InvalidRequest):
        contract.device_path(wwn)
