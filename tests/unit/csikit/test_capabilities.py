"""Ways of use: parsed, and refused with a text that helps."""

import pytest

from appkit.errors import InvalidRequest
from csikit.capabilities import (
    AccessMode,
    Capability,
    check_supported,
    find_objection,
    parse_capabilities,
    parse_capability,
)
from csikit.pb import csi_pb2

Mode = csi_pb2.VolumeCapability.AccessMode
MODES = tuple(Mode.DESCRIPTOR.enum_types_by_name["Mode"].values_by_name)


def mount(mode: Mode.Mode.ValueType = Mode.SINGLE_NODE_WRITER, fs_type: str = "") -> csi_pb2.VolumeCapability:
    return csi_pb2.VolumeCapability(
        mount=csi_pb2.VolumeCapability.MountVolume(fs_type=fs_type), access_mode=Mode(mode=mode)
    )


def test_mount() -> None:
    message = csi_pb2.VolumeCapability(
        mount=csi_pb2.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["noatime"], volume_mount_group="1000"),
        access_mode=Mode(mode=Mode.SINGLE_NODE_MULTI_WRITER),
    )
    assert parse_capability(message) == Capability(
        "mount", "xfs", ("noatime",), AccessMode.SINGLE_NODE_MULTI_WRITER, "1000"
    )


def test_block() -> None:
    message = csi_pb2.VolumeCapability(
        block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=Mode(mode=Mode.SINGLE_NODE_READER_ONLY)
    )
    parsed = parse_capability(message)
    assert parsed == Capability("block", "", (), AccessMode.SINGLE_NODE_READER_ONLY)
    assert parsed.is_read_only


@pytest.mark.parametrize("name", [name for name in MODES if name.startswith("SINGLE_")])
def test_single_node_modes_are_possible(name: str) -> None:
    parsed = parse_capability(mount(Mode.Mode.Value(name)))
    assert parsed.mode == name
    assert find_objection(parsed) is None
    check_supported(parsed)


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("MULTI_NODE_READER_ONLY", "ReadOnlyMany"),
        ("MULTI_NODE_SINGLE_WRITER", "one writer and many readers"),
        ("MULTI_NODE_MULTI_WRITER", "ReadWriteMany"),
    ],
)
def test_multi_node_modes_are_refused_in_words_for_the_user(name: str, known_as: str) -> None:
    parsed = parse_capability(mount(Mode.Mode.Value(name)))
    with pytest.raises(InvalidRequest) as raised:
        check_supported(parsed)
    assert str(raised.value) == (
        f"access mode {name} ({known_as}) is not possible: a Proxmox disk is attached to one VM at a time;"
        " use ReadWriteOnce or ReadWriteOncePod"
    )


def test_every_mode_of_the_protocol_is_known() -> None:
    assert {mode.value for mode in AccessMode} == set(MODES) - {"UNKNOWN"}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (csi_pb2.VolumeCapability(access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER)), "neither a block nor a mount"),
        (csi_pb2.VolumeCapability(mount=csi_pb2.VolumeCapability.MountVolume()), "no access mode"),
        (mount(Mode.UNKNOWN), "no access mode"),
        (mount(99), "access mode 99"),  # type: ignore[arg-type]
        (mount(fs_type="ext4 -F"), "'ext4 -F'"),
        (mount(fs_type="../x"), "'../x'"),
        (mount(fs_type="-x"), "'-x'"),
        (mount(fs_type="EXT4"), "'EXT4'"),
    ],
)
def test_malformed(message: csi_pb2.VolumeCapability, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        parse_capability(message)


def test_a_list_needs_an_entry() -> None:
    assert [each.fs_type for each in parse_capabilities([mount(fs_type="ext4"), mount(fs_type="xfs")])] == [
        "ext4",
        "xfs",
    ]
    with pytest.raises(InvalidRequest, match="no volume capability is given"):
        parse_capabilities([])
