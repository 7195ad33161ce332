from typing import Any

import pytest

from tests.kubesim.patching import BadPatch, json_patch, merge_patch, strategic_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the examples of RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def test_patches_never_change_their_target() -> None:
    target = {"a": {"b": [1]}, "status": {"addresses": [{"type": "Hostname", "address": "x"}]}}
    before = {"a": {"b": [1]}, "status": {"addresses": [{"type": "Hostname", "address": "x"}]}}
    merge_patch(target, {"a": {"b": [2], "c": 1}})
    strategic_patch(target, {"status": {"addresses": [{"type": "Hostname", "address": "y"}]}})
    json_patch(target, [{"op": "add", "path": "/a/b/-", "value": 2}])
    assert target == before


def test_strategic_lists_with_and_without_a_merge_key() -> None:
    node = {"spec": {"taints": [{"key": "a"}]}, "status": {"addresses": [{"type": "Hostname", "address": "x"}]}}
    merged = strategic_patch(
        node, {"spec": {"taints": [{"key": "b"}]}, "status": {"addresses": [{"type": "InternalIP", "address": "1"}]}}
    )
    assert merged["spec"]["taints"] == [{"key": "b"}]
    assert [each["type"] for each in merged["status"]["addresses"]] == ["Hostname", "InternalIP"]
    replaced = strategic_patch(
        node, {"status": {"addresses": [{"type": "InternalIP", "address": "1"}, {"$patch": "replace"}]}}
    )
    assert replaced["status"]["addresses"] == [{"type": "InternalIP", "address": "1"}]
    deleted = strategic_patch(node, {"status": {"addresses": [{"type": "Hostname", "$patch": "delete"}]}})
    assert deleted["status"]["addresses"] == []


def test_json_patch() -> None:
    document = {"a": {"b~/c": 1}, "l": [1, 2]}
    operations = [
        {"op": "test", "path": "/a/b~0~1c", "value": 1},
        {"op": "add", "path": "/l/1", "value": 9},
        {"op": "remove", "path": "/l/0"},
        {"op": "replace", "path": "/a", "value": {"x": 1}},
        {"op": "copy", "from": "/a/x", "path": "/y"},
        {"op": "move", "from": "/y", "path": "/z"},
    ]
    assert json_patch(document, operations) == {"a": {"x": 1}, "l": [9, 2], "z": 1}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "what", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_json_patch_refusals(operation: dict[str, Any]) -> None:
    with pytest.raises(BadPatch) as refused:
        json_patch({"a": 1}, [operation])
    assert refused.value.unprocessable
