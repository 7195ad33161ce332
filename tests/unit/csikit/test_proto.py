"""proto/csi/v1/csi.proto says exactly what CSI 1.13 says, and the committed generated code says what the proto says.

`data/csi-v1.13-descriptor.json` holds the facts of the release: package, options, extensions, services, messages,
enums. The comparison rebuilds the same shape from the descriptors that the services really run on.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto

from csikit.pb import csi_pb2, csi_pb2_grpc
from tools import gen_proto

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "csi-v1.13-descriptor.json").read_text("utf-8"))
SCALARS = {
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_INT64: "int64",
}


def file_proto() -> descriptor_pb2.FileDescriptorProto:
    proto = descriptor_pb2.FileDescriptorProto()
    csi_pb2.DESCRIPTOR.CopyToProto(proto)
    return proto


def type_name(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    if field.type_name.rsplit(".", 1)[-1] in maps and field.type == FieldDescriptorProto.TYPE_MESSAGE:
        key, value = maps[field.type_name.rsplit(".", 1)[-1]].field
        return f"map<{SCALARS[key.type]},{SCALARS[value.type]}>"
    return field.type_name or SCALARS[field.type]


def field_shape(
    field: FieldDescriptorProto, message: DescriptorProto, maps: dict[str, DescriptorProto]
) -> dict[str, Any]:
    shape: dict[str, Any] = {"name": field.name, "number": field.number, "type": type_name(field, maps)}
    if field.label == FieldDescriptorProto.LABEL_REPEATED and not shape["type"].startswith("map<"):
        shape["label"] = "repeated"
    if field.HasField("oneof_index"):
        shape["oneof"] = message.oneof_decl[field.oneof_index].name
    return shape


def enum_shape(enum: EnumDescriptorProto) -> dict[str, Any]:
    return {
        "enum": enum.name,
        "values": {value.name: value.number for value in enum.value},
        "alias": enum.options.allow_alias,
        "options": {},
    }


def message_shape(message: DescriptorProto) -> dict[str, Any]:
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    shape: dict[str, Any] = {
        "message": message.name,
        "fields": [field_shape(field, message, maps) for field in message.field],
    }
    if nested := [message_shape(inner) for inner in message.nested_type if not inner.options.map_entry]:
        shape["messages"] = nested
    if enums := [enum_shape(enum) for enum in message.enum_type]:
        shape["enums"] = enums
    return shape


def by_name(shapes: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {shape[key]: shape for shape in shapes}


def test_file_header() -> None:
    proto = file_proto()
    assert (proto.package, proto.syntax, list(proto.dependency)) == (
        FACTS["package"],
        FACTS["syntax"],
        FACTS["imports"],
    )
    assert {field.name: value for field, value in proto.options.ListFields()} == FACTS["options"]


def test_extensions() -> None:
    ours = [
        {"name": ext.name, "number": ext.number, "extends": ext.extendee, "type": SCALARS[ext.type]}
        for ext in file_proto().extension
    ]
    assert by_name(ours, "name") == by_name(FACTS["extensions"], "name")


def test_services() -> None:
    ours = [
        {
            "service": service.name,
            "methods": [
                {"name": method.name, "in": method.input_type, "out": method.output_type, "options": {}}
                for method in service.method
            ],
        }
        for service in file_proto().service
    ]
    assert ours == FACTS["services"]


def test_only_the_snapshot_metadata_calls_stream() -> None:
    streaming = {
        (service.name, method.name, method.client_streaming, method.server_streaming)
        for service in file_proto().service
        for method in service.method
        if method.client_streaming or method.server_streaming
    }
    assert streaming == {
        ("SnapshotMetadata", "GetMetadataAllocated", False, True),
        ("SnapshotMetadata", "GetMetadataDelta", False, True),
    }


@pytest.mark.parametrize("fact", FACTS["messages"], ids=lambda fact: fact["message"])
def test_message(fact: dict[str, Any]) -> None:
    ours = {message.name: message for message in file_proto().message_type}
    assert message_shape(ours[fact["message"]]) == fact


def test_no_message_beyond_the_facts() -> None:
    assert {message.name for message in file_proto().message_type} == {fact["message"] for fact in FACTS["messages"]}


def test_top_level_enums() -> None:
    assert by_name([enum_shape(enum) for enum in file_proto().enum_type], "enum") == by_name(FACTS["enums"], "enum")


def test_every_field_named_secrets_and_no_other_is_marked_secret() -> None:
    marked, named = set(), set()
    for message in csi_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            if field.GetOptions().Extensions[csi_pb2.csi_secret]:
                marked.add(field.full_name)
            if field.name == "secrets":
                named.add(field.full_name)
    assert marked == named
    assert len(marked) == 19


def test_no_option_beyond_the_secret_mark() -> None:
    """The facts of 1.13 carry no alpha mark on a message, method or enum."""
    assert "[csi.v1.alpha_" not in str(file_proto())


def test_one_message_over_the_wire() -> None:
    """Field numbers and wire types, byte for byte, worked out by hand."""
    request = csi_pb2.CreateVolumeRequest(name="a", capacity_range=csi_pb2.CapacityRange(required_bytes=1))
    request.secrets["k"] = "v"
    assert request.SerializeToString() == b"\x0a\x01a\x12\x02\x08\x01\x2a\x06\x0a\x01k\x12\x01v"


def test_generated_code_is_fresh() -> None:
    assert gen_proto.main(["--check"]) == 0


def test_stale_generated_code_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gen_proto.main(["--libs", str(tmp_path)]) == 0
    package = tmp_path / gen_proto.PACKAGE
    (package / "csi_pb2.pyi").write_text("# edited by hand\n", "utf-8")
    (package / "csi_pb2_grpc.py").unlink()
    (package / "left_over.py").touch()
    assert gen_proto.main(["--check", "--libs", str(tmp_path)]) == 1
    text = capsys.readouterr().err
    assert "csi_pb2.pyi: stale" in text
    assert "csi_pb2_grpc.py: missing" in text
    assert "left_over.py: not generated" in text
    assert "make generate" in text


def test_generated_classes_are_registered_under_the_protocol_name() -> None:
    assert descriptor_pool.Default().FindMessageTypeByName("csi.v1.Volume") is csi_pb2.Volume.DESCRIPTOR
    assert hasattr(csi_pb2_grpc, "add_SnapshotMetadataServicer_to_server")
