from ccm.matching import Machine, candidate_groups
from ccm.uuid_memory import FORGET_S, UuidMemory
from ccm.visibility import audit_limits
from pvekit.models import VmEntry


def machine(
    vmid: int, name: str | None, *, region: str = "cluster-1", status: str = "running", uptime_s: int = 60
) -> Machine:
    entry = VmEntry.parse(
        {"vmid": vmid, "node": "pve1", "name": name, "status": status, "uptime": uptime_s, "type": "qemu"}
    )
    assert entry is not None
    return Machine(region, entry)


def groups(node: str, *names: str | None) -> list[list[int]]:
    machines = [machine(100 + index, name) for index, name in enumerate(names)]
    return [[each.entry.vmid for each in group] for group in candidate_groups(node, machines)]


def test_the_exact_name_comes_before_names_that_begin_with_it() -> None:
    assert groups("w-1", "w-10", "w-1", "w-199", "x-1") == [[101], [100, 102]]


def test_short_and_full_names_fit_either_way() -> None:
    assert groups("w1", "w1.example.org", "w1-old") == [[100], [101]]
    assert groups("w1.example.org", "w1", "w") == [[100]]


def test_case_and_missing_names() -> None:
    assert groups("Worker-1", None, "worker-1", "") == [[101]]
    assert groups("worker-1", "other") == []


def test_a_uuid_is_remembered_for_one_boot() -> None:
    memory = UuidMemory()
    memory.note(machine(111, "w"), "u", now_s=0)
    assert memory.recall(machine(111, "w", uptime_s=90), now_s=30) == "u"
    assert memory.recall(machine(111, "w", region="cluster-2"), now_s=30) is None
    assert memory.recall(machine(111, "w", uptime_s=5), now_s=31) is None
    assert memory.recall(machine(111, "w", uptime_s=90), now_s=31) is None  # forgotten for good


def test_a_uuid_is_not_remembered_under_another_name_or_for_long_or_when_stopped() -> None:
    memory = UuidMemory()
    memory.note(machine(111, "w"), "u", now_s=0)
    memory.note(machine(112, "v"), "u", now_s=0)
    memory.note(machine(113, "s", status="stopped", uptime_s=0), "u", now_s=0)
    assert memory.recall(machine(111, "renamed"), now_s=1) is None
    assert memory.recall(machine(112, "v", uptime_s=999), now_s=FORGET_S) is None
    assert memory.recall(machine(113, "s"), now_s=1) is None


def test_a_token_that_sees_everything_needs_no_sentence() -> None:
    assert audit_limits("r", {"/": {"VM.Audit": True}}) == ""
    assert audit_limits("r", {"/vms": {"VM.Audit": True, "VM.Config.Disk": True}}) == ""


def test_a_missing_right_is_named_with_its_path() -> None:
    assert audit_limits("r", {}) == (
        "the Proxmox VE token of region r has VM.Audit nowhere, and VMs without it are left out of the list: "
        "grant VM.Audit on /vms"
    )
    assert "VM.Audit only on /vms/111, /vms/112," in audit_limits(
        "r", {"/vms/112": {"VM.Audit": True}, "/vms/111": {"VM.Audit": True}, "/": {"Sys.Audit": True}}
    )
    assert audit_limits("r", {"/vms": {"VM.Audit": False}}) != ""  # not propagated: no VM below is seen
