"""What counts as equal, and that nothing else does."""

from typing import Any

import pytest

from tests.contract.comparing import Answer, differences
from tests.contract.naming import AS_RECORDED, RENAMED


def _data(value: Any) -> Answer:
    return Answer(200, "OK", {"data": value})


UPID = "UPID:pve1:0000051D:00025241:6B0DCF7C:qmstart:110:root@pam!full:"


@pytest.mark.parametrize(
    ("recorded", "simulated"),
    [
        (UPID, "UPID:pve1:00000001:00000002:00000003:qmstart:110:root@pam!full:"),
        ({"uptime": 7, "name": "a"}, {"name": "b", "uptime": 8}),
        ([{"a": 1}, {"a": 2, "b": "x"}], [{"a": 3, "b": "y"}]),
        ([{"key": "a", "value": "x"}, {"key": "b"}], [{"key": "b"}, {"key": "a", "value": "y"}]),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_equal(recorded: Any, simulated: Any) -> None:
    assert differences(_data(recorded), _data(simulated)) == []


@pytest.mark.parametrize(
    ("recorded", "simulated"),
    [
        (None, UPID),
        (UPID, UPID.replace("qmstart", "qmstop")),
        ("local:9999/a.raw", "local:9999/b.raw"),
        ({"vmid": 100}, {"vmid": "100"}),
        ({"vmid": 100}, {"vmid": 100, "name": "a"}),
        ({"vmid": 100, "name": "a"}, {"vmid": 100}),
        ({"vmid": 100}, {"vmid": None}),
        ([], [{"vmid": 100}]),
        ([{"vmid": 100}], []),
        ([{"a": 1}], {"a": 1}),
        ([{"key": "scsi1", "value": "x"}], [{"key": "scsi2", "value": "x"}]),
        ([{"key": "scsi1", "value": "x"}], [{"key": "scsi1", "value": "x", "delete": 1}]),
        ({"exitstatus": "VM is locked (backup)"}, {"exitstatus": "OK"}),
    ],
)
def test_every_other_difference_in_a_body_is_told(recorded: Any, simulated: Any) -> None:
    assert differences(_data(recorded), _data(simulated))


def test_status_reason_message_and_reasons_per_parameter_count() -> None:
    refused = Answer(400, "Parameter verification failed.", {"data": None, "errors": {"size": "no"}, "message": "m\n"})

    assert differences(refused, Answer(500, refused.reason, refused.body))
    assert differences(refused, Answer(400, "Bad Request", refused.body))
    assert differences(refused, Answer(400, refused.reason, {**refused.body, "errors": {"size": "too big"}}))
    assert differences(refused, Answer(400, refused.reason, {**refused.body, "message": "n\n"}))
    assert differences(refused, Answer(400, refused.reason, ""))


def test_numbers_of_lines_and_processes_in_a_text_do_not_count() -> None:
    def text(pid: int, line: int) -> Answer:
        return Answer(500, f"open '201.conf.tmp.{pid}' failed at /usr/share/perl5/PVE/Storage.pm line {line}.", "")

    assert differences(text(107, 651), text(4, 660)) == []


def test_ids_are_renamed_wherever_a_text_names_them() -> None:
    text = "lock '/run/lock-110.conf', local%3A9999%2Fvm-9999-pvc.raw on pve1, target is local node."

    renamed = RENAMED.text(text)

    assert renamed == "lock '/run/lock-410.conf', disks%3A8899%2Fvm-8899-pvc.raw on alder, target is local node."
    assert AS_RECORDED.text(text) == text


def test_json_keeps_its_field_names_when_renamed() -> None:
    entry = {"vmid": 110, "shared": 1, "storage": "shared", "size": 110, "allowed": {"pve2": {}}}

    assert RENAMED.value(entry) == {
        "vmid": 410, "shared": 1, "storage": "filer", "size": 110, "allowed": {"birch": {}},
    }  # fmt: skip
