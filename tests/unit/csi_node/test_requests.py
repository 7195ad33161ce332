from pathlib import Path

import pytest

from appkit.errors import FailedPrecondition, InvalidRequest, Unsupported
from csi_node import requests
from csi_node.host.filesystems import FormatOptions
from csikit.pb import csi_pb2
from tests.fakes.node_calls import capability

KUBELET = Path("/var/lib/kubelet")
STAGING = "/var/lib/kubelet/plugins/x/globalmount"
TARGET = "/var/lib/kubelet/pods/1/mount"
DEVICE = {"DevicePath": "/dev/disk/by-id/wwn-0x5056432D49443031", "lun": "1"}


def stage(**changes: object) -> csi_pb2.NodeStageVolumeRequest:
    fields: dict[str, object] = {
        "volume_id": "r/z/s/vm-9999-pvc-1",
        "publish_context": DEVICE,
        "staging_target_path": STAGING,
        "volume_capability": capability("xfs", ("noatime",)),
    }
    return csi_pb2.NodeStageVolumeRequest(**(fields | changes))  # type: ignore[arg-type]


def publish(**changes: object) -> csi_pb2.NodePublishVolumeRequest:
    fields: dict[str, object] = {
        "volume_id": "r/z/s/vm-9999-pvc-1",
        "publish_context": DEVICE,
        "staging_target_path": STAGING,
        "target_path": TARGET,
        "volume_capability": capability("xfs"),
    }
    return csi_pb2.NodePublishVolumeRequest(**(fields | changes))  # type: ignore[arg-type]


def test_stage() -> None:
    context = {"ssd": "True", "blockSize": "4096", "inodeSize": "512", "storage": "local-lvm", "cache": "none"}
    wanted = requests.parse_stage(stage(volume_context=context), KUBELET)
    assert wanted.wwn == "0x5056432d49443031"
    assert (wanted.fs_type, wanted.mount_flags, wanted.ssd, wanted.block) == ("xfs", ("noatime",), True, False)
    assert wanted.format_options == FormatOptions(4096, 512)
    assert wanted.resize_required is False
    wanted = requests.parse_stage(
        stage(publish_context=DEVICE | {"resizeRequired": "true"}, volume_capability=capability(flags=("ro",))), KUBELET
    )
    assert (wanted.resize_required, wanted.read_only, wanted.format_options) == (True, True, FormatOptions())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"volume_id": ""}, "volume_id is empty"),
        ({"staging_target_path": ""}, "staging_target_path is empty"),
        ({"staging_target_path": "some/path"}, "not an absolute path"),
        ({"staging_target_path": "/var/lib/kubelet/../x"}, "not an absolute path"),
        ({"volume_capability": None}, "volume_capability is missing"),
        ({"volume_capability": capability(mode="MULTI_NODE_MULTI_WRITER")}, "ReadWriteMany"),
        ({"volume_capability": capability(flags=("a,b",))}, "not one option"),
        ({"publish_context": {}}, "publish_context has no DevicePath"),
        ({"publish_context": {"DevicePath": "/dev/sdb"}}, "is not of the form"),
        ({"volume_context": {"ssd": "maybe"}}, "ssd is 'maybe'"),
        ({"volume_context": {"blockSize": "4k"}}, "blockSize is '4k'"),
        ({"volume_context": {"blockSize": "3000"}}, "power of two"),
        ({"volume_context": {"inodeSize": "64"}}, "from 128 to 4096"),
        ({"volume_context": {"inodeSize": "-1"}}, "from 128 to 4096"),
        ({"volume_context": {"blockSize": "9" * 5000}}, "power of two"),
        ({"volume_context": {"blockSize": "\u0664096"}}, "power of two"),
        ({"staging_target_path": "/var/lib/kubelet/" + "x" * 256}, "longer than Linux allows"),
        ({"staging_target_path": "/var/lib/kubelet" + "/x" * 2100}, "longer than Linux allows"),
        ({"staging_target_path": "/var/lib/kubelet/a\0b"}, "not an absolute path"),
        ({"publish_context": {"DevicePath": "/dev/disk/by-id/wwn-0x5056432d49443031\n"}}, "is not of the form"),
        ({"volume_capability": capability("../xfs")}, "file system type"),
        ({"volume_capability": capability(flags=("",))}, "not one option"),
        ({"volume_capability": capability(flags=("a\nb",))}, "not one option"),
    ],
)
def test_wrong_stage(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        requests.parse_stage(stage(**changes), KUBELET)


@pytest.mark.parametrize(
    "flag", ["bind", "remount", "LOOP", "loop=/dev/loop3", "private", "rshared", "logdev=/dev/sdc", "X-mount.subdir=a"]
)
def test_mount_flags_that_are_not_for_a_volume(flag: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be used for a volume"):
        requests.parse_stage(stage(volume_capability=capability(flags=(flag,))), KUBELET)


def test_other_mount_flags_are_the_administrators_choice() -> None:
    flags = ("discard", "nodev", "data=ordered", "logbsize=256k", "_netdev", "x-systemd.mount-timeout=9", "noload")
    assert requests.parse_stage(stage(volume_capability=capability(flags=flags)), KUBELET).mount_flags == flags


@pytest.mark.parametrize("target", [STAGING, f"{STAGING}/pod", "/var/lib/kubelet/plugins"])
def test_target_and_staging_path_in_one_another(target: str) -> None:
    """Published at its own staging path, a volume would be unstaged by the unpublish."""
    with pytest.raises(InvalidRequest, match="must not lie in one another"):
        requests.parse_publish(publish(target_path=target), KUBELET)


def test_stage_of_what_comes_later() -> None:
    with pytest.raises(Unsupported, match="btrfs is not supported; ext4 and xfs are"):
        requests.parse_stage(stage(volume_capability=capability("btrfs")), KUBELET)
    with pytest.raises(Unsupported, match="encryption-passphrase") as caught:
        requests.parse_stage(stage(secrets={"encryption-passphrase": "hunter2"}), KUBELET)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["/var/lib/k0s/kubelet/pods/1", "/var/lib/kubelet", "/var/lib/kubelet2/x"])
def test_path_outside_the_kubelets_directory_names_both(path: str) -> None:
    with pytest.raises(FailedPrecondition, match=f"{path} is not under /var/lib/kubelet, "):
        requests.parse_stage(stage(staging_target_path=path), KUBELET)


def test_publish() -> None:
    wanted = requests.parse_publish(publish(readonly=True), KUBELET)
    assert (wanted.staging_path, wanted.target_path, wanted.read_only) == (Path(STAGING), Path(TARGET), True)
    reader = publish(volume_capability=capability(mode="SINGLE_NODE_READER_ONLY"))
    assert requests.parse_publish(reader, KUBELET).read_only
    single = publish(volume_capability=capability(mode="SINGLE_NODE_SINGLE_WRITER"))
    assert requests.parse_publish(single, KUBELET).exclusive
    with pytest.raises(FailedPrecondition, match="must be staged before"):
        requests.parse_publish(publish(staging_target_path=""), KUBELET)
    with pytest.raises(InvalidRequest, match="target_path is empty"):
        requests.parse_publish(publish(target_path=""), KUBELET)


def test_expand_and_stats() -> None:
    with pytest.raises(InvalidRequest, match="volume_path is empty"):
        requests.parse_expand(csi_pb2.NodeExpandVolumeRequest(volume_id="v"))
    with pytest.raises(InvalidRequest, match="volume_id is empty"):
        requests.parse_expand(csi_pb2.NodeExpandVolumeRequest(volume_path="some/path"))
    with pytest.raises(InvalidRequest, match="negative"):
        requests.parse_expand(
            csi_pb2.NodeExpandVolumeRequest(
                volume_id="v", volume_path="/x", capacity_range=csi_pb2.CapacityRange(required_bytes=-1)
            )
        )
    with pytest.raises(InvalidRequest, match="volume_path is empty"):
        requests.parse_stats(csi_pb2.NodeGetVolumeStatsRequest(volume_id="v"))
    with pytest.raises(InvalidRequest, match="volume_id is empty"):
        requests.parse_stats(csi_pb2.NodeGetVolumeStatsRequest(volume_path="some/path"))
    for field in ("volume_path", "staging_target_path"):
        changed = csi_pb2.NodeExpandVolumeRequest(**{"volume_id": "v", "volume_path": "/x", field: "/x\0y"})  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=f"{field} holds a NUL"):
            requests.parse_expand(changed)
    with pytest.raises(InvalidRequest, match="volume_path holds a NUL"):
        requests.parse_stats(csi_pb2.NodeGetVolumeStatsRequest(volume_id="v", volume_path="/x\0y"))
