"""The script of `outside`: what happened before the recording of which number.

Each entry is told by a recording's note or by the first answer that shows its effect. Must not say what a recorded
request does by itself, and nothing about how the simulator works.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tests.contract.outside import (
    GIB,
    MIB,
    Edit,
    Scene,
    acl_gone,
    asked_at,
    config_flock,
    guest_listens,
    guest_tells,
    host_is,
    hosts_restarted,
    machine_fault,
    powered_off,
    pvcs,
    quorum,
    sent,
    snapshot_half_made,
    storage_added,
    storage_enabled,
    storage_lock,
    storage_removed,
    token_loses_root,
    token_may,
    vm_config,
    vm_gone,
    volume_damaged,
    volumes,
    waited,
    worker_killed,
    worker_recycled,
)
from tests.contract.recordings import Recording
from tests.pvesim.state import GuestAgent

_HELPER = (
    "VM.Audit", "VM.Allocate", "VM.Clone", "VM.Config.Disk", "VM.Config.Options", "VM.Snapshot", "VM.Snapshot.Rollback",
    "Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit",
)  # fmt: skip
_SOURCE = "9999/vm-9999-pvc-q1-a.raw"
_GUEST = GuestAgent(
    hostname="guest",
    interfaces=[
        {
            "name": "lo",
            "hardware-address": "00:00:00:00:00:00",
            "ip-addresses": [{"ip-address-type": "ipv4", "ip-address": "127.0.0.1", "prefix": 8}],
            "statistics": {
                f"{way}-{what}": 0 for way in ("rx", "tx") for what in ("bytes", "packets", "errs", "dropped")
            },
        }
    ],
    osinfo={"kernel-release": "6.12", "kernel-version": "#1 SMP", "machine": "x86_64"},
)
_KERNEL = '-kernel /boot/vmlinuz -initrd /boot/initrd.gz -append "console=ttyS0 quiet"'
_QEMU = "/nodes/pve1/qemu"


def _helper_made() -> list[Edit]:
    """The helper VM of the copy tests made anew, with the source disk in it."""
    return [
        token_may("hp", _HELPER),
        vm_gone(9010),
        sent("hp", "POST", _QEMU, vmid=9010, name="csi-src", scsi0=f"local:{_SOURCE}"),
    ]


# After each round of the permission matrix root took off what the token had left on VM 101.
_TIDIED = sent("root", "PUT", f"{_QEMU}/101/config", delete="scsi13,scsi14,unused0,unused1")


def _started(vmid: int, node: str = "pve1") -> Edit:
    return sent("root", "POST", f"/nodes/{node}/qemu/{vmid}/status/start")


def _stopped(vmid: int) -> Edit:
    return sent("root", "POST", f"{_QEMU}/{vmid}/status/stop")


_SINGLE: dict[int, Sequence[Edit]] = {
    179: [
        storage_added("off", "dir", "images", 100 * GIB, path="/srv/off", disable=1),
        storage_added("missing", "dir", "images", 100 * GIB, path="/srv/missing", is_mountpoint=1, unmounted=1),
        storage_enabled("isoonly"),
    ],
    # qemu-img could not copy the disk of odd size.
    554: [machine_fault("POST", f"{_QEMU}/100/move_disk")],
    557: [machine_fault("POST", f"{_QEMU}/100/move_disk")],
    # The recording machine has no KVM; the VM's configuration says so only later.
    585: [machine_fault("POST", f"{_QEMU}/110/status/start")],
    589: [_started(110)],
    597: [guest_tells(110, _GUEST)],
    607: [pvcs("local", "bbbb0000", range(1, 11), qcow2=[11])],
    # QEMU holds a lock on its image and qemu-img on this machine was not told to ignore it; seen once.
    640: [machine_fault("PUT", f"{_QEMU}/110/resize")],
    691: [pvcs("local", "cccc0000", range(1, 11), qcow2=[11, 12])],
    758: [pvcs("local", "dddd0000", range(1, 4), 256 * MIB, qcow2=[11, 12])],
    # "flock held": another process has the configuration's lock, then the storage's.
    853: [config_flock(101, held=True)],
    861: [config_flock(101, held=False), storage_lock("local", held=True)],
    865: [storage_lock("local", held=False)],
    868: [pvcs("local", "eeee0000", range(3, 8), 256 * MIB, qcow2=[11, 12])],
    # QEMU of the recording machine cannot save its state yet.
    904: [machine_fault("POST", f"{_QEMU}/121/snapshot")],
    905: [snapshot_half_made(121, "live1")],
    1006: [pvcs("local", "ffff0000", [1], 256 * MIB, qcow2=[11, 12])],
    1114: [guest_listens(142, listens=False)],
    1132: [pvcs("local", "1111aaaa", range(1, 4))],
    1390: [storage_removed("missing")],
    1518: [
        storage_added("lvmthin1", "lvmthin", "images,rootdir", 100 * GIB, 512 * MIB, vgname="pve", thinpool="data"),
        storage_added("lvm1", "lvm", "images", 50 * GIB, vgname="vg1"),
    ],
    1683: [
        volumes("lvmthin1", [f"vm-9999-pvc-31000000-0000-0000-0000-{n:012d}" for n in (1, 2)]),
        volumes("lvm1", [f"vm-9999-pvc-31000000-0000-0000-0000-{n:012d}" for n in (1, 2)]),
    ],
    1807: [pvcs("local", "26000000", range(1, 9), 64 * MIB)],
    1932: [pvcs("local", "27000000", range(1, 16), 64 * MIB)],
    1962: [worker_recycled("PUT", f"{_QEMU}/110/config")],
    # What a lost answer left undone was done again.
    1964: [sent("csi", "PUT", f"{_QEMU}/110/config", delete="scsi25")],
    2027: [pvcs("local", "28000000", range(1, 4), 64 * MIB)],
    # The machine was restarted.
    2047: [powered_off(110, 111)],
    2207: [_TIDIED, token_loses_root("mx"), volumes("local", ["9999/vm-9999-prop.raw"], 16 * MIB)],
    2224: [
        _TIDIED,
        pvcs("local", "31310000", range(1, 5), 64 * MIB),
        sent("root", "POST", _QEMU, vmid=160, name="mv", memory=128, scsihw="virtio-scsi-pci", kvm=0, cpu="max"),
    ],
    # QEMU of the recording machine cannot mirror a disk.
    2249: [machine_fault("POST", f"{_QEMU}/160/move_disk")],
    2255: [machine_fault("POST", f"{_QEMU}/160/move_disk")],
    2289: [pvcs("local", "32320000", range(1, 3), 64 * MIB)],
    # "guest without acpid"
    2317: [guest_listens(110, listens=False)],
    2319: [guest_listens(110, listens=True)],
    2325: [_stopped(110)],
    2327: [_stopped(111)],
    2332: [hosts_restarted()],
    2333: [
        token_may("hp", _HELPER),
        volumes("local", [_SOURCE, "9999/vm-9999-pvc-q1-a.qcow2", "9999/vm-9999-pvc-q1-b.raw"], 256 * MIB),
        volumes("lvmthin1", ["vm-9999-pvc-q1-a"], 256 * MIB),
    ],
    2596: [
        token_may("hp", _HELPER),
        vm_gone(9001, 9003, 9004),
        volumes("local", ["9999/vm-9999-pvc-q1-live.raw"]),
    ],
    2618: [vm_gone(9001), sent("hp", "POST", _QEMU, vmid=9001, name="csi-helper")],
    2636: [vm_gone(9001), sent("hp", "POST", _QEMU, vmid=9001, name="csi-helper")],
    2657: [
        vm_gone(9001, 9002),
        sent("hp", "POST", _QEMU, vmid=9002, name="csi-helper2", scsi0="local:9999/vm-9999-pvc-q1-live.raw"),
    ],
    2698: [vm_gone(9010, 9011, 9012)],
    2710: _helper_made(),
    2715: _helper_made(),
    2718: _helper_made(),
    2721: _helper_made(),
    2726: _helper_made(),
    2731: _helper_made(),
    2736: _helper_made(),
    2741: _helper_made(),
    2746: _helper_made(),
    2763: [
        token_may("hp", _HELPER),
        vm_gone(9010),
        volumes("local", [f"9999/vm-9999-pvc-q1-d{n}.qcow2" for n in range(1, 6)], 256 * MIB),
        volumes("lvmthin1", ["vm-9999-pvc-q1-d1", "vm-9999-pvc-q1-d2"], 256 * MIB),
    ],
    2778: [vm_gone(9010, 9011)],
    2802: [vm_gone(9010, 9011, 9013)],
    2836: [vm_gone(9011, 9012)],
    2863: [vm_gone(9010)],
    2878: [_stopped(110)],
    2880: [_started(110)],
    2898: [_stopped(111)],
    2900: [_stopped(110)],
    2902: [_started(111)],
    2904: [_started(110)],
    2962: [volume_damaged("local", "9999/vm-9999-q2-junk.qcow2", "not-qcow2")],
    3014: [volume_damaged("local", "9999/vm-9999-q2-nobacking.qcow2", "no-backing")],
    2906: [
        volumes("local", [f"9999/vm-9999-pvc-q2-{vmid}-{n:02d}.raw" for n in range(24)], 64 * MIB)
        for vmid in (110, 111)
    ],
    # Between two serial numbers the disk was taken out.
    **{number: [sent("csi", "PUT", f"{_QEMU}/110/config", delete="scsi1")] for number in range(3027, 3034)},
    3026: [volumes("local", ["9999/vm-9999-pvc-6f1d2c3b-4a59-4877-8f66-0123456789ab.raw"], 64 * MIB)],
    3088: [volumes("local", ["9999/vm-9999-pvc-q1-run.qcow2"], 128 * MIB)],
    3102: [machine_fault("POST", f"{_QEMU}/9020/clone")],
    3105: [machine_fault("POST", _QEMU)],
    3162: [token_loses_root("hp")],
    3188: [volumes("local", [_SOURCE], 256 * MIB)],
    3244: [acl_gone("hp", "/vms"), acl_gone("hp", "/storage/local"), token_may("hp", ["VM.Config.Disk"])],
    3250: [token_may("hp", ["VM.Config.Disk", "Datastore.AllocateSpace"])],
}

# What happened while the tasks of the requests before were still at work.
MEANWHILE: Mapping[int, Sequence[Edit]] = {
    # The configuration has moved, and is still locked.
    1773: [waited(20.6)],
    2621: [waited(4)],
    2632: [waited(4)],
    2639: [waited(4), worker_killed("qmconfig")],
    2649: [waited(4), worker_killed("qmcreate")],
    2662: [waited(4), worker_killed("qmclone")],
}

_CLUSTER: dict[int, Sequence[Edit]] = {
    1300: [
        pvcs("shared", "21000000", [1], 64 * MIB),
        pvcs("local", "21000000", [3], 64 * MIB),
    ],
    1323: [pvcs("shared", "22000000", [1, 2], 64 * MIB)],
    1324: [vm_config(202, args=_KERNEL, memory="512", agent="1")],
    1336: [pvcs("shared", "23000000", [1, 2], 64 * MIB)],
    1349: [host_is("pve3", "no-pveproxy")],
    1353: [host_is("pve3", "")],
    1354: [host_is("pve3", "no-pvedaemon")],
    1357: [host_is("pve3", "")],
    1358: [host_is("pve3", "cut")],
    1370: [host_is("pve2", "cut"), quorum(present=False)],
    1389: [host_is("pve2", ""), host_is("pve3", ""), quorum(present=True)],
    1753: [
        pvcs("shared", "24000000", [1, 2], 64 * MIB),
        pvcs("shared", "25000000", [1, 2], 64 * MIB),
    ],
    # What HA was asked for takes some seconds.
    1761: [waited(12)],
    1767: [waited(20)],
    1781: [waited(30)],
    # The first try cut off the wrong host.
    1783: [host_is("pve2", "cut")],
    1784: [host_is("pve2", "")],
    1785: [asked_at("pve2"), host_is("pve1", "cut")],
    1799: [host_is("pve1", "")],
    # The machines were restarted, and the VMs with them.
    2041: [asked_at("pve1"), powered_off(200, 202), _started(200, "pve2")],
    2043: [host_is("pve2", "cut")],
    3112: [host_is("pve2", "")],
}

SCRIPT: Mapping[int, Sequence[Edit]] = {**_SINGLE, **_CLUSTER}

_FIRST_ROUND = 2047
_MATRIX = re.compile(r"matrix privs=(?P<privileges>\S+) op=(?P<op>\w+)")
_HELPER_MATRIX = re.compile(r"q1 privmatrix .* op=(?P<op>\S+) privs=(?P<privileges>\S+)")
_MOVE_MATRIX = re.compile(r"q1c move_disk (?:without (?P<without>\S+)|(?P<least>MIN2))")


def edits_before(recording: Recording) -> Iterable[Edit]:
    """Everything that happened outside between the recording before and this one."""
    yield from SCRIPT.get(recording.number, ())
    if match := _MATRIX.search(recording.note):
        yield from _matrix(match["op"], match["privileges"].split(","), recording)
    elif match := _HELPER_MATRIX.search(recording.note):
        yield from _helper_matrix(match["op"], match["privileges"].split(","))
    elif (match := _MOVE_MATRIX.match(recording.note)) and recording.method == "POST":
        least = ("VM.Config.Disk", "Datastore.AllocateSpace")
        yield token_may("hp", least if match["least"] else [one for one in _HELPER if one != match["without"]])


def _matrix(op: str, privileges: Sequence[str], recording: Recording) -> Iterable[Edit]:
    """The permission matrix on disks: a role of these rights, and a disk made by root for each round."""
    if op == "alloc":
        if recording.number > _FIRST_ROUND:
            yield _TIDIED
        number = re.sub(r"\D", "", str(recording.params["filename"]).removeprefix("vm-9999-"))
        yield token_may("mx", privileges)
        yield volumes("local", [f"9999/vm-9999-mxr-{number}.raw"], 16 * MIB)


def _helper_matrix(op: str, privileges: Sequence[str]) -> Iterable[Edit]:
    """The permission matrix on helper VMs: root tidies up in between, and makes the helper if the token could not."""
    if op == "create":
        yield vm_gone(9001, 9003, 9004)
        yield token_may("hp", privileges)
    elif op == "create+import":
        yield _ensured_helper
    elif op == "import":
        yield vm_gone(9003)
    elif op == "read":
        yield _imported_helper
    elif op == "drop":
        yield vm_gone(9004)


async def _ensured_helper(scene: Scene) -> None:
    if scene.naming.vmid(9001) not in scene.world.vms:
        await scene.send("root", "POST", _QEMU, vmid=9001, name="csi-helper")


async def _imported_helper(scene: Scene) -> None:
    if "scsi0" not in scene.vm(9001).conf:
        await scene.send("root", "POST", f"{_QEMU}/9001/config", scsi0=f"local:0,import-from=local:{_SOURCE}")
