"""Requests as text, without what the protocol marks as secret."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from csikit.pb import csi_pb2
from csikit.redact import STRIPPED, redact, secret_values

PLANTED = "tr0ub4dor&3"


def every_request() -> list[type[Message]]:
    return [
        message_factory.GetMessageClass(message)
        for message in csi_pb2.DESCRIPTOR.message_types_by_name.values()
        if "secrets" in message.fields_by_name
    ]


@pytest.mark.parametrize("kind", every_request(), ids=lambda kind: kind.DESCRIPTOR.name)
def test_no_request_shows_its_secrets(kind: type[Message]) -> None:
    request = kind(secrets={"encryption-passphrase": PLANTED, "other": PLANTED + PLANTED})
    assert redact(request) == f"{{secrets={{encryption-passphrase={STRIPPED} other={STRIPPED}}}}}"
    assert sorted(secret_values(request)) == [PLANTED, PLANTED + PLANTED]


def test_there_are_nineteen_such_requests() -> None:
    assert len(every_request()) == 19


def test_everything_else_is_shown_in_one_line() -> None:
    request = csi_pb2.CreateVolumeRequest(
        name="pvc-1",
        capacity_range=csi_pb2.CapacityRange(required_bytes=1 << 30),
        volume_capabilities=[
            csi_pb2.VolumeCapability(
                mount=csi_pb2.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["noatime", "nouuid"]),
                access_mode=csi_pb2.VolumeCapability.AccessMode(
                    mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER
                ),
            )
        ],
        parameters={"storage": "local-lvm", "ssd": "true\nfake line"},
        secrets={"encryption-passphrase": PLANTED},
    )
    assert redact(request) == (
        "{name='pvc-1' capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={fs_type='xfs'"
        " mount_flags=['noatime' 'nouuid']} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}]"
        f" parameters={{ssd='true\\nfake line' storage='local-lvm'}} secrets={{encryption-passphrase={STRIPPED}}}}}"
    )


def test_an_enum_number_of_a_later_release_is_shown_as_number() -> None:
    mode = csi_pb2.VolumeCapability.AccessMode()
    mode.ParseFromString(b"\x08\x63")
    assert redact(mode) == "{mode=99}"


def test_nothing_set() -> None:
    assert redact(csi_pb2.ProbeRequest()) == "{}"
    assert list(secret_values(csi_pb2.NodeStageVolumeRequest())) == []


def outer_message() -> type[Message]:
    """A message that holds requests singly, in a list and in a map, and has marked fields of every kind.

    The protocol has none like it today; the option may be set on any field tomorrow.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="test/outer.proto", package="test", syntax="proto3", dependency=[csi_pb2.DESCRIPTOR.name]
    )
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="MappedEntry")
    entry.options.map_entry = True
    string, message = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    one, many = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL, descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    request = ".csi.v1.DeleteVolumeRequest"
    entry.field.add(name="key", number=1, type=string, label=one)
    entry.field.add(name="value", number=2, type=message, label=one, type_name=request)
    outer.field.add(name="single", number=1, type=message, label=one, type_name=request)
    outer.field.add(name="listed", number=2, type=message, label=many, type_name=request)
    outer.field.add(name="mapped", number=3, type=message, label=many, type_name=".test.Outer.MappedEntry")
    marked = [
        outer.field.add(name="word", number=4, type=string, label=one),
        outer.field.add(name="words", number=5, type=string, label=many),
        outer.field.add(name="raw", number=6, type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, label=one),
        outer.field.add(name="whole", number=7, type=message, label=one, type_name=".csi.v1.Topology"),
    ]
    for field in marked:
        field.options.Extensions[csi_pb2.csi_secret] = True
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Outer"))


def test_marked_fields_are_found_at_any_depth_and_of_any_kind() -> None:
    inner = csi_pb2.DeleteVolumeRequest(volume_id="v", secrets={"k": f"{PLANTED}-1"})
    message = outer_message()(
        single=inner,
        listed=[inner, csi_pb2.DeleteVolumeRequest(secrets={"k": f"{PLANTED}-2"})],
        mapped={"m": csi_pb2.DeleteVolumeRequest(volume_id="w", secrets={"k": f"{PLANTED}-3"})},
        word=f"{PLANTED}-4",
        words=[f"{PLANTED}-5"],
        raw=f"{PLANTED}-6".encode(),
        whole=csi_pb2.Topology(segments={"s": f"{PLANTED}-7"}),
    )
    text = redact(message)
    assert PLANTED not in text
    assert text == (
        f"{{single={{volume_id='v' secrets={{k={STRIPPED}}}}}"
        f" listed=[{{volume_id='v' secrets={{k={STRIPPED}}}}} {{secrets={{k={STRIPPED}}}}}]"
        f" mapped={{m={{volume_id='w' secrets={{k={STRIPPED}}}}}}}"
        f" word={STRIPPED} words={STRIPPED} raw={STRIPPED} whole={STRIPPED}}}"
    )
    assert set(secret_values(message)) == {f"{PLANTED}-{number}" for number in range(1, 8)}
