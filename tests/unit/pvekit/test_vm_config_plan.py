"""Where a volume is in a config, what a write must hold, whom a refusal is about, which slots rest."""

from collections.abc import Mapping

import pytest

from appkit.errors import FailedPrecondition, ResourceExhausted
from pvekit.blame import blamed, text_for
from pvekit.errors import Call, HotplugFailed, ParameterError, Protected, PveError
from pvekit.refusals import of_answer
from pvekit.vm_config import VmConfig
from pvekit.vm_config_plan import Traces, Wish, make_plan, traces, why_waiting

V, W = "local:9999/vm-9999-pvc-1.raw", "local:9999/vm-9999-pvc-10.raw"


def config(*entries: Mapping[str, object], **current: str) -> VmConfig:
    return VmConfig.parse([*({"key": key, "value": value} for key, value in current.items()), *entries])


def test_parse_of_a_pending_list() -> None:
    """Recorded on 9.2."""
    parsed = VmConfig.parse(
        [
            {"key": "scsi1", "value": f"{V},size=64M", "pending": f"{W},size=64M"},
            {"delete": 1, "value": f"{W},size=2G", "key": "scsi3"},
            {"pending": 2, "value": 1, "key": "cores"},
            {"value": "uuid=d1e1f932-103e-47f5-aa4b-be08db4fa933", "key": "smbios1"},
            {"key": "ide2", "value": "local:100/vm-100-cloudinit.qcow2,media=cdrom"},
            {"key": "ide0", "value": "none,media=cdrom"},
            {"key": "unused0", "value": V},
            {"key": "digest", "value": "0640da5e"},
            {"value": "no key"},
        ]
    )
    assert parsed.digest == "0640da5e"
    assert set(parsed.drives()) == {"scsi1", "scsi3", "ide2"}
    assert {key: drive.volid for key, drive in parsed.pending_drives().items()} == {"scsi1": W}
    assert parsed.deletes == {"scsi3"}
    assert parsed.current["cores"] == "1"
    assert parsed.unused()["unused0"].volid == V
    assert parsed.smbios_uuid == "d1e1f932-103e-47f5-aa4b-be08db4fa933"
    assert parsed.scsi_slots()[1].volid == V
    assert {"scsi1", "scsi3", "unused0"} <= parsed.taken_keys()


@pytest.mark.parametrize(
    ("setting", "plugs"),
    [
        (None, True),
        ("1", True),
        ("0", False),
        ("disk,network,usb", True),
        ("network;disk", True),
        ("network,usb", False),
    ],
)
def test_hotplug_setting(setting: str | None, plugs: bool) -> None:
    assert config(**({} if setting is None else {"hotplug": setting})).hotplugs_disks is plugs


def test_other_settings() -> None:
    assert config().scsi_controller == "lsi"
    assert config(scsihw="virtio-scsi-pci").scsi_controller == "virtio-scsi-pci"
    assert config().smbios_uuid is None
    assert config(name="w1").name == "w1"


TRACES = [
    (config(scsi1=W), Traces((), (), (), ())),
    (config(scsi1=f"{V},size=1G"), Traces(("scsi1",), (), (), ())),
    (config({"key": "scsi1", "value": V, "delete": 1}), Traces((), ("scsi1",), (), ())),
    (config({"key": "scsi1", "value": V, "delete": 2}), Traces((), ("scsi1",), (), ())),
    (config({"key": "scsi1", "value": V, "pending": W}), Traces((), (), ("scsi1",), ())),
    (config({"key": "scsi1", "value": V, "pending": f"{V},ssd=1"}), Traces(("scsi1",), (), (), ())),
    (config({"key": "scsi1", "pending": V}), Traces((), (), (), ("scsi1",))),
    (config({"key": "scsi1", "value": W, "pending": V}), Traces((), (), (), ("scsi1",))),
    (config(unused0=V), Traces((), (), (), ())),
    (config(ide2=f"{V},media=cdrom"), Traces(("ide2",), (), (), ())),
]


@pytest.mark.parametrize(("seen", "expected"), TRACES)
def test_traces(seen: VmConfig, expected: Traces) -> None:
    assert traces(seen, V) == expected


def plan_for(
    seen: VmConfig, *wishes: Wish, banned: frozenset[str] = frozenset()
) -> tuple[dict[str, str], list[str], list[str]]:
    plan = make_plan(seen, wishes, banned=banned, vm="VM 100")
    assert not plan.refused
    return plan.changes, plan.deletes, plan.reverts


ATTACH, DETACH = Wish(attach=True, volid=V, options={"wwn": "0x5"}), Wish(attach=False, volid=V)


def test_plans_for_attaching() -> None:
    drive = f"{V},wwn=0x5"
    assert plan_for(config(scsi0="a:b", scsi1=W), ATTACH) == ({"scsi2": drive}, [], [])
    assert plan_for(config({"key": "scsi4", "pending": V}), ATTACH) == ({"scsi4": drive}, [], [])
    assert plan_for(config({"key": "scsi4", "pending": V}), ATTACH, banned=frozenset({"scsi4"})) == (
        {"scsi1": drive}, [], ["scsi4"],
    )  # fmt: skip
    assert plan_for(config({"key": "scsi1", "value": W, "pending": V}), ATTACH) == ({"scsi2": drive}, [], ["scsi1"])
    assert plan_for(config({"key": "scsi1", "value": V, "delete": 1}), ATTACH) == ({}, ["scsi1"], [])
    assert plan_for(config({"key": "scsi1", "value": V, "delete": 1}, hotplug="0"), ATTACH) == ({}, [], ["scsi1"])
    assert plan_for(config({"key": "scsi1", "value": V, "pending": W}), ATTACH) == ({}, [], ["scsi1"])
    assert plan_for(config({"key": "scsi5", "pending": V}, scsi1=V), ATTACH) == ({}, [], ["scsi5"])
    assert plan_for(config(scsi1=V), ATTACH) == ({}, [], [])


def test_plans_for_detaching() -> None:
    assert plan_for(config(scsi1=V, scsi2=W, unused0=V), DETACH) == ({}, ["scsi1"], [])
    assert plan_for(config(scsi1=V, virtio2=V), DETACH) == ({}, ["scsi1", "virtio2"], [])
    assert plan_for(config({"key": "scsi1", "value": V, "delete": 1}), DETACH) == ({}, ["scsi1"], [])
    assert plan_for(config({"key": "scsi1", "pending": V}), DETACH) == ({}, [], ["scsi1"])
    assert plan_for(config({"key": "scsi1", "value": W, "pending": V}), DETACH) == ({}, [], ["scsi1"])
    assert plan_for(config(scsi1=W), DETACH) == ({}, [], [])


def test_several_wishes_share_a_write_without_touching_one_key_twice() -> None:
    seen = config({"key": "scsi1", "value": V, "pending": W})
    changes, deletes, reverts = plan_for(seen, DETACH, Wish(attach=True, volid=W))
    assert (changes, deletes, reverts) == ({"scsi2": W}, ["scsi1"], [])
    two = plan_for(config(), ATTACH, Wish(attach=True, volid=W))
    assert set(two[0]) == {"scsi1", "scsi2"}


def test_what_waits_for_a_failed_wish_is_reverted_in_passing() -> None:
    plan = make_plan(
        config({"key": "scsi1", "pending": W}), [ATTACH], banned=(), discard=[Wish(attach=True, volid=W)], vm="VM 100"
    )
    assert (plan.reverts, set(plan.changes)) == (["scsi1"], {"scsi2"})


def test_what_no_write_can_do() -> None:
    full = config(**{f"scsi{n}": f"local:x{n}" for n in range(30)})
    refused = make_plan(full, [ATTACH], banned=frozenset({"scsi30"}), vm="VM 100").refused[ATTACH]
    assert isinstance(refused, ResourceExhausted)
    assert "scsi30 must rest" in str(refused)
    refused = make_plan(config(virtio1=V), [ATTACH], banned=(), vm="VM 100").refused[ATTACH]
    assert isinstance(refused, FailedPrecondition)


def test_the_setting_that_keeps_a_change_waiting() -> None:
    assert "hotplug" in str(why_waiting(config(hotplug="network"), ATTACH, "VM 100"))
    assert "scsihw) is 'lsi'" in str(why_waiting(config(), ATTACH, "VM 100"))
    assert why_waiting(config(scsihw="virtio-scsi-pci"), ATTACH, "VM 100") is None


CALL = Call("r1", "POST", "/nodes/pve1/qemu/100/config")
KEYS = {
    Wish(attach=True, volid=V): ("scsi1",),
    Wish(attach=True, volid=W): ("scsi2",),
    Wish(attach=False, volid="ceph:vm-9999-z"): ("scsi3",),
}
FIRST, SECOND, THIRD = KEYS


def said(text: str, status: int = 500) -> PveError:
    return of_answer(status, text, {"message": text}, call=CALL)


BLAME = [
    (f"volume '{V}' does not exist", [FIRST]),
    (f"volume '{W}' does not exist", [SECOND]),
    ("qemu-img: Could not open '/var/lib/vz/images/9999/vm-9999-pvc-10.raw': Image is not in raw format", [SECOND]),
    ("no such logical volume pve/vm-9999-z", [THIRD]),
    ("storage 'ceph' is not available on node 'pve1'", [THIRD]),
    ("storage 'local' does not exist", [FIRST, SECOND]),
    ("something else", []),
    ("volume 'local:9999/vm-9999-pvc-100.raw' does not exist", []),
]


@pytest.mark.parametrize(("text", "expected"), BLAME)
def test_blame_by_text(text: str, expected: list[Wish]) -> None:
    assert blamed(said(text), KEYS) == expected


def test_blame_by_key_and_kind() -> None:
    hotplug = HotplugFailed("x", call=CALL)
    hotplug.texts = {"scsi2": "hotplug problem - a", "scsi3": "hotplug problem - b"}
    assert blamed(hotplug, KEYS) == [SECOND, THIRD]
    assert text_for(hotplug, ("scsi3",)) == "scsi3: hotplug problem - b"
    parameters = ParameterError("x", call=CALL)
    parameters.errors = {"scsi1": "bad"}
    assert blamed(parameters, KEYS) == [FIRST]
    assert blamed(Protected("protection mode enabled", call=CALL), KEYS) == [THIRD]
    assert blamed(said("Permission check failed (/storage/ceph, Datastore.Audit)", 403), KEYS) == [THIRD]
    assert blamed(said("Permission check failed (/vms/100, VM.Config.Disk)", 403), KEYS) == list(KEYS)
    assert blamed(said("something else"), {FIRST: ("scsi1",)}) == [FIRST]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ("d1e1f932-103e-47f5-aa4b-be08db4fa933", True),
        ("D1E1F932-103E-47F5-AA4B-BE08DB4FA933", True),
        ("32f9e1d1-3e10-f547-aa4b-be08db4fa933", True),
        ("d1e1f932-103e-47f5-aa4b-be08db4fa934", False),
        ("", True),
        ("no uuid", True),
    ],
)
def test_which_machine_a_vm_may_be(reported: str, expected: bool) -> None:
    assert config(smbios1="uuid=d1e1f932-103e-47f5-aa4b-be08db4fa933,base64=1").may_be(reported) is expected
    assert config().may_be(reported)
