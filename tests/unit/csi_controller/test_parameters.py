import pytest

from appkit.errors import InvalidRequest
from csi_controller.parameters import TABLE, drive_options, parse_parameters

PLAIN = {"backup": "0", "iothread": "1", "replicate": "0"}


def test_the_seeds_class() -> None:
    parameters = parse_parameters({"storage": "local-lvm", "ssd": "true"})
    assert parameters.storage == "local-lvm"
    assert parameters.context() == {**PLAIN, "storage": "local-lvm", "ssd": "1"}
    assert drive_options(parameters.context()) == {**PLAIN, "ssd": "1", "discard": "on"}


def test_every_key_is_once_in_the_table() -> None:
    keys = [each.key for each in TABLE]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("key", "text", "options"),
    [
        ("aio", "native", {"aio": "native"}),
        ("backup", "True", {"backup": "1"}),
        ("cache", "none", {"cache": "none"}),
        ("discard", "on", {"discard": "on"}),
        ("discard", "ignore", {"discard": "ignore"}),
        ("iothread", "f", {"iothread": "0"}),
        ("ssd", "false", {"ssd": "0"}),
        ("diskIOPS", "4000", {"iops_rd": "4000", "iops_wr": "4000"}),
        ("diskIOPS", "0", {}),
        ("diskMBps", "1000", {"mbps_rd": "1000", "mbps_wr": "1000"}),
        ("blockSize", "4096", {}),
        ("inodeSize", "256", {}),
        ("storageFormat", "qcow2", {}),
    ],
)
def test_what_a_parameter_becomes(key: str, text: str, options: dict[str, str]) -> None:
    parameters = parse_parameters({"storage": "s", key: text})
    assert drive_options(parameters.context()) == PLAIN | options
    assert key in parameters.context()


def test_ssd_does_not_override_a_given_discard() -> None:
    context = parse_parameters({"storage": "s", "ssd": "1", "discard": "ignore"}).context()
    assert drive_options(context)["discard"] == "ignore"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, ["'storage' is required"]),
        ({"storage": ""}, ["'storage' is required"]),
        ({"storage": "s", "ssd": "ture"}, ["ssd='ture'", "true or false"]),
        ({"storage": "s", "diskIOPS": "-1"}, ["diskIOPS='-1'", "whole number"]),
        ({"storage": "s", "diskIOPS": "4k"}, ["diskIOPS='4k'"]),
        ({"storage": "s", "cache": "fast"}, ["cache='fast'", "writeback"]),
        ({"storage": "s", "storageFormat": "vmdk"}, ["storageFormat='vmdk'", "raw, qcow2"]),
        ({"storage": "s", "diskIops": "5"}, ["'diskIops' is not a parameter", "did you mean 'diskIOPS'"]),
        ({"encrypted": "yes", "ssd": "x"}, ["encrypted", "ssd='x'", "'storage' is required"]),
    ],
)
def test_problems_are_all_named(raw: dict[str, str], words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_parameters(raw)
    for word in words:
        assert word in str(caught.value)


def test_sidecars_keys_are_passed_over() -> None:
    raw = {"storage": "s", "csi.storage.k8s.io/pvc/name": "data-0", "csi.storage.k8s.io/fstype": "xfs"}
    assert parse_parameters(raw).context() == {**PLAIN, "storage": "s"}


def test_an_attributes_class_wins_over_the_storage_class() -> None:
    parameters = parse_parameters({"storage": "s", "diskIOPS": "100"}, {"diskIOPS": "200", "backup": "true"})
    assert parameters.context()["diskIOPS"] == "200"
    assert drive_options(parameters.context())["backup"] == "1"


@pytest.mark.parametrize("mutable", [{"cache": "none"}, {"iops": "5"}, {"diskMBps": "x"}])
def test_an_attributes_class_with_anything_else_is_refused(mutable: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        parse_parameters({"storage": "s"}, mutable)


def test_a_context_of_the_peer_is_read_under_both_spellings() -> None:
    context = {
        "storage": "local-lvm",
        "backup": "1",
        "iothread": "1",
        "replicate": "0",
        "diskIOPS": "100",
        "iops_rd": "300",
        "iops_wr": "300",
        "mbps_rd": "50",
        "mbps_wr": "50",
        "storage.kubernetes.io/csiProvisionerIdentity": "1-2-3",
        "somebody": "else's",
    }
    assert drive_options(context) == {
        "backup": "1",
        "iothread": "1",
        "replicate": "0",
        "iops_rd": "300",
        "iops_wr": "300",
        "mbps_rd": "50",
        "mbps_wr": "50",
    }


def test_a_context_with_junk_falls_back_to_the_defaults() -> None:
    assert drive_options({"backup": "maybe", "cache": "?", "diskIOPS": "-5"}) == PLAIN
    assert drive_options({}) == PLAIN
