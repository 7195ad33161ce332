"""Golden tables: every form of volume handle and node id that the peers ever wrote, and what is none."""

import dataclasses

import pytest

from appkit.errors import InvalidRequest
from csikit.handles import (
    MalformedHandle,
    NodeId,
    VolumeHandle,
    format_handle,
    format_node_id,
    parse_handle,
    parse_node_id,
)

UUID = "f3b1a6d2-7c55-4a4e-9d3e-6d1f0c5d2a11"

# text, (region, zone, storage, disk), Proxmox volid, owner, name without directory and extension
GOLDEN = [
    # one host, block storage (lvmthin, lvm, zfs)
    (
        f"cluster-1/pve1/local-lvm/vm-9999-pvc-{UUID}",
        ("cluster-1", "pve1", "local-lvm", f"vm-9999-pvc-{UUID}"),
        f"local-lvm:vm-9999-pvc-{UUID}",
        9999,
        f"vm-9999-pvc-{UUID}",
    ),
    # one host, file storage (dir, btrfs), both formats
    (
        f"cluster-1/pve1/local/9999/vm-9999-pvc-{UUID}.raw",
        ("cluster-1", "pve1", "local", f"9999/vm-9999-pvc-{UUID}.raw"),
        f"local:9999/vm-9999-pvc-{UUID}.raw",
        9999,
        f"vm-9999-pvc-{UUID}",
    ),
    (
        f"cluster-1/pve1/local/9999/vm-9999-pvc-{UUID}.qcow2",
        ("cluster-1", "pve1", "local", f"9999/vm-9999-pvc-{UUID}.qcow2"),
        f"local:9999/vm-9999-pvc-{UUID}.qcow2",
        9999,
        f"vm-9999-pvc-{UUID}",
    ),
    # shared block storage (rbd, lvm on iSCSI): no zone
    (
        f"cluster-1//ceph/vm-9999-pvc-{UUID}",
        ("cluster-1", "", "ceph", f"vm-9999-pvc-{UUID}"),
        f"ceph:vm-9999-pvc-{UUID}",
        9999,
        f"vm-9999-pvc-{UUID}",
    ),
    # shared file storage (nfs, cifs, cephfs)
    (
        f"cluster-1//nfs-1/9999/vm-9999-pvc-{UUID}.qcow2",
        ("cluster-1", "", "nfs-1", f"9999/vm-9999-pvc-{UUID}.qcow2"),
        f"nfs-1:9999/vm-9999-pvc-{UUID}.qcow2",
        9999,
        f"vm-9999-pvc-{UUID}",
    ),
    # another controllerVmID
    (
        "r1/pve1/lvm/vm-123456789-pvc-A",
        ("r1", "pve1", "lvm", "vm-123456789-pvc-A"),
        "lvm:vm-123456789-pvc-A",
        123456789,
        "vm-123456789-pvc-A",
    ),
    # replicated zfs: owned by a helper VM, no zone
    (
        f"cluster-1//zfs/vm-10001-pvc-{UUID}",
        ("cluster-1", "", "zfs", f"vm-10001-pvc-{UUID}"),
        f"zfs:vm-10001-pvc-{UUID}",
        10001,
        f"vm-10001-pvc-{UUID}",
    ),
    # snapshot ids are handles of full copies
    (
        f"cluster-1/pve1/local-lvm/vm-9999-snapshot-{UUID}",
        ("cluster-1", "pve1", "local-lvm", f"vm-9999-snapshot-{UUID}"),
        f"local-lvm:vm-9999-snapshot-{UUID}",
        9999,
        f"vm-9999-snapshot-{UUID}",
    ),
    (
        f"cluster-1/pve1/local/9999/vm-9999-snapshot-{UUID}.raw",
        ("cluster-1", "pve1", "local", f"9999/vm-9999-snapshot-{UUID}.raw"),
        f"local:9999/vm-9999-snapshot-{UUID}.raw",
        9999,
        f"vm-9999-snapshot-{UUID}",
    ),
    # moved by the peer's operator tool, where Proxmox chose the name
    (
        "r1/pve2/zfs/vm-9999-disk-7",
        ("r1", "pve2", "zfs", "vm-9999-disk-7"),
        "zfs:vm-9999-disk-7",
        9999,
        "vm-9999-disk-7",
    ),
    # owner and name disagree on a directory storage: the directory decides
    (
        "r/h/local/9999/vm-9998-foo.raw",
        ("r", "h", "local", "9999/vm-9998-foo.raw"),
        "local:9999/vm-9998-foo.raw",
        9999,
        "vm-9998-foo",
    ),
    # hand-written static volumes
    ("r/h/local/100/data.raw", ("r", "h", "local", "100/data.raw"), "local:100/data.raw", 100, "data"),
    ("r/h/lvm/vm-100-disk-0", ("r", "h", "lvm", "vm-100-disk-0"), "lvm:vm-100-disk-0", 100, "vm-100-disk-0"),
    ("r/h/lvm/base-100-disk-0", ("r", "h", "lvm", "base-100-disk-0"), "lvm:base-100-disk-0", 100, "base-100-disk-0"),
    ("r/h/lvm/vm-9999", ("r", "h", "lvm", "vm-9999"), "lvm:vm-9999", 9999, "vm-9999"),
    (
        "r/h/iscsi/0.0.1.scsi-36001405",
        ("r", "h", "iscsi", "0.0.1.scsi-36001405"),
        "iscsi:0.0.1.scsi-36001405",
        None,
        "0.0.1.scsi-36001405",
    ),
    # linked clones carry their base; the owner is the clone's
    (
        "r/h/zfs/base-100-disk-0/vm-101-disk-0",
        ("r", "h", "zfs", "base-100-disk-0/vm-101-disk-0"),
        "zfs:base-100-disk-0/vm-101-disk-0",
        101,
        "vm-101-disk-0",
    ),
    (
        "r/h/local/100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2",
        ("r", "h", "local", "100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2"),
        "local:100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2",
        101,
        "vm-101-disk-0",
    ),
    # a dot that is no extension; an extension on block storage is part of Proxmox's name, not of ours
    ("r/h/lvm/vm-9999-pvc-1.2", ("r", "h", "lvm", "vm-9999-pvc-1.2"), "lvm:vm-9999-pvc-1.2", 9999, "vm-9999-pvc-1.2"),
    (
        "r/h/lvm/vm-9999-pvc-1.raw",
        ("r", "h", "lvm", "vm-9999-pvc-1.raw"),
        "lvm:vm-9999-pvc-1.raw",
        9999,
        "vm-9999-pvc-1",
    ),
    # names as people choose them
    (
        "Region_1.eu/pve-01.example.org/store_1/vm-9999-pvc-ü+@_x",
        ("Region_1.eu", "pve-01.example.org", "store_1", "vm-9999-pvc-ü+@_x"),
        "store_1:vm-9999-pvc-ü+@_x",
        9999,
        "vm-9999-pvc-ü+@_x",
    ),
]

MALFORMED = [
    ("", "four parts"),
    ("reallyfakevolumeid", "four parts"),
    (f"pvc-{UUID}", "four parts"),
    ("cluster-1/pve1/local-lvm", "four parts"),
    ("cluster-1/ceph/vm-9999-pvc-1", "four parts"),
    ("/pve1/lvm/vm-9999-pvc-1", "region is empty"),
    ("r1/pve1//vm-9999-pvc-1", "storage is empty"),
    ("r1/pve1/lvm/", "disk is empty"),
    ("r1///", "storage is empty"),
    ("r1/pve1/lvm/9999/", "empty part"),
    ("r1/pve1/lvm//vm-9999-pvc-1", "empty part"),
    ("r1/pve1/local/../../etc/shadow", "begins with a dot"),
    ("r1/pve1/local/9999/..", "begins with a dot"),
    ("r1/pve1/local/9999/.hidden.raw", "begins with a dot"),
    ("r1/../local/vm-9999-pvc-1", "zone '..'"),
    ("r1/pve1/local:9999/vm-9999-pvc-1", "storage 'local:9999'"),
    ("r 1/pve1/local/vm-9999-pvc-1", "region 'r 1'"),
    ("r1/pve1/lvm/vm-9999-pvc-1,backup=1", "character that no Proxmox volume can have"),
    ("r1/pve1/lvm/vm-9999-pvc 1", "character that no Proxmox volume can have"),
    ("r1/pve1/lvm/vm-9999-pvc-1\n", "character that no Proxmox volume can have"),
    ("r1/pve1/lvm/vm-9999-pvc-1\x00", "character that no Proxmox volume can have"),
    ("r1/pve1/lvm/vm-9999-pvc-1?x=%2e%2e", "character that no Proxmox volume can have"),
    ("r1/pve1/local/1/2/3/4/5", "too many slashes"),
]


@pytest.mark.parametrize(("text", "parts", "volid", "owner", "name"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_golden(text: str, parts: tuple[str, str, str, str], volid: str, owner: int | None, name: str) -> None:
    handle = parse_handle(text)
    assert dataclasses.astuple(handle) == parts
    assert format_handle(handle) == text
    assert str(handle) == text
    assert (handle.volid, handle.owner_vmid, handle.volume_name) == (volid, owner, name)


@pytest.mark.parametrize(("text", "why"), MALFORMED, ids=[repr(row[0]) for row in MALFORMED])
def test_malformed_handles_say_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(MalformedHandle) as raised:
        parse_handle(text)
    assert why in str(raised.value)
    assert repr(text) in str(raised.value)
    assert isinstance(raised.value, InvalidRequest)


def test_names_that_begin_alike_are_different_volumes() -> None:
    assert parse_handle("r/h/lvm/vm-9999-data-1") != parse_handle("r/h/lvm/vm-9999-data-10")
    assert parse_handle("r/h/lvm/vm-9999-data-1") != parse_handle("r/h/lvm2/vm-9999-data-1")


def test_a_handle_is_a_value() -> None:
    handle = VolumeHandle("r", "", "ceph", "vm-9999-pvc-1")
    assert {handle: 1}[parse_handle("r//ceph/vm-9999-pvc-1")] == 1


NODE_IDS = [
    ("worker-11", NodeId("worker-11")),
    ("worker-11/111", NodeId("worker-11", 111)),
    ("ip-10-0-0-1.example.org/999999999", NodeId("ip-10-0-0-1.example.org", 999999999)),
    ("some-fake-node-id", NodeId("some-fake-node-id")),
    ("n/100", NodeId("n", 100)),
]


@pytest.mark.parametrize(("text", "node_id"), NODE_IDS)
def test_node_ids(text: str, node_id: NodeId) -> None:
    assert parse_node_id(text) == node_id
    assert format_node_id(node_id) == text
    assert str(node_id) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/111",
        "worker/",
        "worker/abc",
        "worker/99",
        "worker/1000000000",
        "worker/111/2",
        "worker/-111",
        "wor ker/111",
        "worker/١١١",
        "worker/ 111",
        "../111",
        "worker-/111",
    ],
)
def test_malformed_node_ids(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not <node name>\[/<vmid>\]"):
        parse_node_id(text)
