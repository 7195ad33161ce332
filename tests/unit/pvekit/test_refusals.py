"""Every text that was recorded of Proxmox VE 9.2 and that somebody acts on, and what it means."""

from typing import Any

import pytest

from appkit.errors import (
    AlreadyExists,
    Denied,
    DriverError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    OutOfRange,
    Pending,
    ResourceExhausted,
    Unavailable,
    Unsupported,
)
from pvekit import errors as e
from pvekit.errors import Call, PveError
from pvekit.refusals import of_answer, of_task
from pvekit.upid import Upid

CALL = Call("r1", "PUT", "/nodes/pve1/qemu/100/config")
UPID = Upid.parse("UPID:pve1:00000345:0001EBD8:6B0DCE75:qmconfig:100:csi@pve!csi:")

# text of a 500, the class it means, and what a caller may treat it as
TEXTS: list[tuple[str, type[PveError], type[DriverError]]] = [
    ("Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist", e.VmNotHere, Unavailable),
    ("unable to find configuration file for VM 999 on node 'pve1'", e.VmNotHere, Unavailable),
    ("unable to create VM 9999 - VM 9999 already exists on node 'pve1'", e.VmExists, AlreadyExists),
    ("unable to create VM 130: config file already exists", e.VmExists, AlreadyExists),
    ("VM is locked (snapshot-delete)", e.VmLocked, Pending),
    ("VM is locked (backup)", e.VmLocked, Pending),
    ("VM is locked (migrate)", e.VmLocked, Pending),
    ("checksum mismatch (file change by other user?)", e.DigestMismatch, Pending),
    (
        "VM 160: detected modified configuration - file changed by other user? Try again.",
        e.DigestMismatch,
        Pending,
    ),
    ("can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout", e.LockTimeout, Pending),
    ("can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout", e.LockTimeout, Pending),
    ("cfs-lock 'storage-shared' error: got lock request timeout", e.LockTimeout, Pending),
    ("cfs-lock 'storage-shared' error: no quorum!", e.NoQuorum, Unavailable),
    ("cluster not ready - no quorum?", e.NoQuorum, Unavailable),
    (
        "unable to open file '/etc/pve/nodes/pve1/qemu-server/201.conf.tmp.107' - Permission denied",
        e.NoQuorum,
        Unavailable,
    ),
    (
        "hostname lookup 'pve2' failed - failed to get address info for: pve2: Name or service not known",
        e.NodeUnknown,
        Unavailable,
    ),
    (
        "hostname lookup 'pve9' failed - failed to get address info for: pve9: Temporary failure in name resolution",
        e.NodeUnknown,
        Unavailable,
    ),
    ("no such cluster node 'nosuch'", e.NodeUnknown, Unavailable),
    ("can't remove drive 'scsi1' - protection mode enabled", e.Protected, FailedPrecondition),
    ("can't remove VM 102 - protection mode enabled", e.Protected, FailedPrecondition),
    (
        "can't remove unused disk 'local:9001/vm-9001-disk-5.raw' - protection mode enabled",
        e.Protected,
        FailedPrecondition,
    ),
    ("disk 'scsi9' does not exist", e.DriveNotFound, FailedPrecondition),
    ("Disk 'scsi0' for VM '100' does not exist", e.DriveNotFound, FailedPrecondition),
    ("storage 'nosuch' does not exist", e.StorageNotFound, InvalidRequest),
    ("storage 'off' is disabled", e.StorageNotOnNode, FailedPrecondition),
    ("storage 'othernode' is not available on node 'pve1'", e.StorageNotOnNode, FailedPrecondition),
    (
        "unable to activate storage 'missing' - directory is expected to be a mount point but is not mounted: '/x'",
        e.StorageInactive,
        Unavailable,
    ),
    ("not enough free space (49383735296 < 1048574951424)", e.NoSpace, ResourceExhausted),
    ("shrinking disks is not supported", e.SizeRefused, OutOfRange),
    ("volume 'local:9999/vm-9999-nosuch.raw' does not exist", e.VolumeNotFound, NotFound),
    ("failed to update VM 110: volume 'local:9999/nosuch.raw' does not exist", e.VolumeNotFound, NotFound),
    (
        "unable to create VM 105 - volume 'local:9999/vm-9999-pvc-eeee0000.raw' does not exist",
        e.VolumeNotFound,
        NotFound,
    ),
    ("volume_size_info on 'local:9999/vm-9999-nosuch.raw' failed - no format", e.VolumeNotFound, NotFound),
    ("no such logical volume pve/vm-9999-nosuch", e.VolumeNotFound, NotFound),
    (
        "can't get size of '/dev/vg1/vm-9999-nosuch':   Failed to find logical volume \"vg1/vm-9999-nosuch\"",
        e.VolumeNotFound,
        NotFound,
    ),
    (
        "lvremove 'vg1/vm-9999-nosuch' error:   Failed to find logical volume \"vg1/vm-9999-nosuch\"",
        e.VolumeNotFound,
        NotFound,
    ),
    (
        "can't activate LV '/dev/vg1/vm-9999-nosuch':   Failed to find logical volume \"vg1/vm-9999-nosuch\"",
        e.VolumeNotFound,
        NotFound,
    ),
    ("disk image '/var/lib/vz/images/9999/vm-9999-parsame.raw' already exists", e.VolumeExists, AlreadyExists),
    (
        'lvcreate \'pve/vm-9999-x\' error:   Logical Volume "vm-9999-x" already exists in volume group "pve"',
        e.VolumeExists,
        AlreadyExists,
    ),
    ("rbd: create error: (17) File exists", e.VolumeExists, AlreadyExists),
    (
        "base volume 'local:140/base-140-disk-0.qcow2' is still in use by linked cloned",
        e.VolumeInUse,
        FailedPrecondition,
    ),
    (
        "lvremove 'pve/vm-9999-x' error:   Logical volume pve/vm-9999-x in use.",
        e.VolumeInUse,
        FailedPrecondition,
    ),
    ("rbd error: rbd: error: image still has watchers", e.VolumeInUse, FailedPrecondition),
    (
        "lvremove 'pve/x' error:   Logical volume pve/x contains a filesystem in use.",
        e.VolumeInUse,
        FailedPrecondition,
    ),
    ("unable to parse directory volume name 'garbage'", e.VolumeNameRefused, InvalidRequest),
    ("unable to parse lvm volume name 'pvc-foo'", e.VolumeNameRefused, InvalidRequest),
    ("unable to parse volume filename 'vm-9999-a b.raw'", e.VolumeNameRefused, InvalidRequest),
    ("illegal name 'pvc-foo' - should be 'vm-9999-*'", e.VolumeNameRefused, InvalidRequest),
    ("lvm name 'vm-9999-a/b' contains illegal characters", e.VolumeNameRefused, InvalidRequest),
    (
        "unsupported format 'qcow2' at /usr/share/perl5/PVE/Storage/LvmThinPlugin.pm line 102.",
        e.VolumeNameRefused,
        InvalidRequest,
    ),
    (
        "volume name 'vm-9999-x' does not match requested format 'qcow2' (did you mean 'vm-9999-x.qcow2'?)",
        e.VolumeNameRefused,
        InvalidRequest,
    ),
    (
        "drive 'scsi21' - volume 'local:9999/vm-9999.raw' - 'format=qcow2' option different from storage format 'raw'",
        e.VolumeNameRefused,
        InvalidRequest,
    ),
    (
        "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.",
        e.PveDenied,
        Denied,
    ),
    ("only root can set 'args' config", e.PveDenied, Denied),
    ("only root can modify 'serial1' config for real devices", e.PveDenied, Denied),
]


@pytest.mark.parametrize(("text", "kind", "meaning"), TEXTS, ids=[text[:40] for text, _, _ in TEXTS])
def test_text_as_an_answer_and_as_a_tasks_end(text: str, kind: type[PveError], meaning: type[DriverError]) -> None:
    answer = of_answer(500, text, {"data": None, "message": f"{text}\n"}, call=CALL)
    assert type(answer) is kind
    assert isinstance(answer, meaning)
    assert answer.text == " ".join(text.split())
    assert (answer.status, answer.region, answer.method, answer.api_path) == (500, "r1", "PUT", CALL.path)
    ended = of_task(text, upid=UPID, call=CALL)
    assert type(ended) is kind
    assert ended.upid == str(UPID)
    assert ended.text in str(ended) or isinstance(ended, Denied)


# what a 403 says → privilege, path
DENIALS = [
    ("Permission check failed (/vms/100, VM.Audit)", "VM.Audit", "/vms/100"),
    ("Permission check failed (/, Sys.Audit)", "Sys.Audit", "/"),
    ("Permission check failed (/storage/local, Datastore.AllocateSpace)", "Datastore.AllocateSpace", "/storage/local"),
    (
        "Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)",
        "Datastore.Audit|Datastore.AllocateSpace",
        "/storage/local",
    ),
    ("Permission check failed (/vms/9999, VM.Config.Disk)", "VM.Config.Disk", "/vms/9999"),
    ("Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)", "SDN.Use", "/sdn/zones/localnetwork/vmbr0"),
    ("Permission check failed", "", ""),
    ("Permission check failed (user != root@pam)", "root@pam", ""),
    ("Permission check failed (pool 'nopool' does not exist)", "", ""),
]


@pytest.mark.parametrize(("text", "privilege", "path"), DENIALS)
def test_a_denial_names_privilege_and_path(text: str, privilege: str, path: str) -> None:
    error = of_answer(403, text, {"data": None, "message": f"{text}\n"}, call=CALL)
    assert isinstance(error, e.PveDenied)
    assert (error.privilege, error.path) == (privilege, path)
    if privilege and path:
        assert f"lacks {privilege} on {path}" in str(error)
    else:
        assert text in str(error)


ANSWERS: list[tuple[int, str, Any, type[PveError]]] = [
    (401, "Authentication failed!", None, e.PveDenied),
    (401, "No ticket", None, e.PveDenied),
    (595, "No route to host", None, e.PveUnreachable),
    (595, "Connection refused", None, e.PveUnreachable),
    (595, "Connection timed out", None, e.PveUnreachable),
    (596, "Connection timed out", None, e.PveUnknownOutcome),
    (596, "Broken pipe", None, e.PveUnknownOutcome),
    (502, "Bad Gateway", "<html>", e.PveUnknownOutcome),
    (
        501,
        "Method 'GET /nosuch' not implemented",
        {"message": "Method 'GET /nosuch' not implemented\n"},
        e.NotImplementedHere,
    ),
    (501, "Unexpected content for method 'DELETE'", "Unexpected content for method 'DELETE'", e.NotImplementedHere),
    (400, "Bad Request", "", e.ParameterError),
    (500, "no options specified", {"data": None, "message": "no options specified\n"}, e.ServerFailure),
    (424, "node is not in a cluster, no join info available!", {"message": "node is not …"}, e.ServerFailure),
]


@pytest.mark.parametrize(("status", "reason", "body", "kind"), ANSWERS)
def test_answer_by_status(status: int, reason: str, body: Any, kind: type[PveError]) -> None:
    error = of_answer(status, reason, body, call=CALL)
    assert type(error) is kind
    assert error.reason == reason


def test_a_refused_token_says_where_to_look() -> None:
    error = of_answer(401, "Authentication failed!", None, call=CALL)
    assert isinstance(error, e.PveDenied)
    assert "API token: Authentication failed!" in str(error)


def test_parameters_are_listed_with_their_reasons() -> None:
    body = {"data": None, "message": "Parameter verification failed.\n", "errors": {"upid": "no such task\n"}}
    error = of_answer(400, "Parameter verification failed.", body, call=CALL)
    assert isinstance(error, e.ParameterError)
    assert error.errors == {"upid": "no such task"}
    assert "upid: no such task" in str(error)


def test_an_unknown_storage_as_a_parameter_error() -> None:
    body = {"message": "Parameter verification failed.\n", "data": None, "errors": {"storage": "No such storage."}}
    assert isinstance(of_answer(400, "Parameter verification failed.", body, call=CALL), e.StorageNotFound)


def test_hotplug_problem_as_an_answer() -> None:
    why = "hotplug problem - error on hot-unplugging device 'virtioscsi1' - still busy in guest?\n"
    body = {"errors": {"scsi1": why}, "message": "Parameter verification failed.\n", "data": None}
    error = of_answer(400, "Parameter verification failed.", body, call=CALL)
    assert isinstance(error, e.HotplugFailed)
    assert isinstance(error, Unavailable)
    assert error.keys == ("scsi1",)
    assert "still busy in guest?" in str(error)


def test_hotplug_problems_as_a_tasks_end() -> None:
    text = (
        "400 Parameter verification failed. scsi2: hotplug problem - error on hot-unplugging device 'virtioscsi2' - "
        "still busy in guest? scsi3: hotplug problem - adding blockdev 'drive-scsi3' failed : VM 110 qmp command "
        "'blockdev-add' failed - Could not open backing file: Could not open '/none.raw': No such file or directory  "
    )
    error = of_task(text, upid=UPID, call=CALL)
    assert isinstance(error, e.HotplugFailed)
    assert error.keys == ("scsi2", "scsi3")
    assert error.texts["scsi2"].endswith("still busy in guest?")
    assert error.texts["scsi3"].endswith("No such file or directory")


def test_a_right_that_only_the_plugging_missed() -> None:
    why = (
        "unable to apply pending change scsi1 : 403 Permission check failed (/storage/local, Datastore.AllocateSpace)\n"
    )
    body = {"errors": {"scsi1": why}, "message": "Parameter verification failed.\n", "data": None}
    error = of_answer(400, "Parameter verification failed.", body, call=CALL)
    assert isinstance(error, e.PveDenied)
    assert (error.privilege, error.path) == ("Datastore.AllocateSpace", "/storage/local")


def test_the_lock_is_named() -> None:
    error = of_answer(500, "VM is locked (snapshot-delete)", None, call=CALL)
    assert isinstance(error, e.VmLocked)
    assert error.lock == "snapshot-delete"


def test_no_format_is_not_a_proof_of_absence() -> None:
    error = of_answer(500, "volume_size_info on 'local:9999/x.raw' failed - no format", None, call=CALL)
    assert isinstance(error, e.VolumeNotFound)
    assert not error.proved
    gone = of_answer(500, "volume 'local:9999/x.raw' does not exist", None, call=CALL)
    assert isinstance(gone, e.VolumeNotFound)
    assert gone.proved


def test_a_tasks_own_text_that_nobody_knows() -> None:
    error = of_task("start failed: QEMU exited with code 1", upid=UPID, call=CALL)
    assert type(error) is e.TaskFailed
    assert "start failed: QEMU exited with code 1" in str(error)
    assert str(UPID) in str(error)


def test_501_is_unsupported() -> None:
    assert isinstance(of_answer(501, "Method 'GET /x' not implemented", None, call=CALL), Unsupported)
