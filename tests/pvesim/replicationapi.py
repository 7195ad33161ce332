"""Replication jobs: a VM's own local disks kept on a second host, on storages that can (zfspool).

From the sources, not recorded. Foreign volumes are passed over in silence, as there. A job runs when it is asked for
(`schedule_now`); schedules are kept and shown, and not followed. Must not move a VM.
"""

from typing import Any

from tests.pvesim.answers import Unordered
from tests.pvesim.call import Call, Routes
from tests.pvesim.drives import drives_of
from tests.pvesim.errors import ApiError, die
from tests.pvesim.formats import split_list
from tests.pvesim.state import Vm, Volume
from tests.pvesim.storage import plugin_of

_STATE = ("last_sync", "last_try", "duration", "fail_count", "error")
_SCHEDULE = "*/15"


def replicatable(call: Call, vm: Vm) -> list[Volume]:
    """Own local disks that are not excluded; 500 when one is on a storage that cannot."""
    storages = call.world.storages
    found = []
    for _, drive in sorted(drives_of(vm.conf)):
        if drive.is_cdrom or drive.options.get("replicate") == "0" or storages.owner_of(drive.file) != vm.vmid:
            continue
        storage, _ = storages.split(drive.file)
        if storage.shared:
            continue
        if not plugin_of(storage).replicates:
            raise die(f"missing replicate feature on volume '{drive.file}'")
        volume = storages.find_volume(drive.file, vm.node)
        if volume is None:
            raise die(f"volume '{drive.file}' does not exist")
        found.append(volume)
    return found


def _guest(call: Call, job_id: str) -> Vm:
    vmid = int(job_id.partition("-")[0])
    vm = call.world.vms.get(vmid)
    if vm is None:
        raise die(f"no such guest '{vmid}'")
    return vm


def _get_job(call: Call) -> dict[str, Any]:
    job = call.world.replication.get(call.params["id"])
    if job is None:
        raise die(f"no such replication job '{call.params['id']}'")
    return job


def _shown(job_id: str, job: dict[str, Any], *, state: bool = False) -> dict[str, Any]:
    guest, _, number = job_id.partition("-")
    entry = {"id": job_id, "guest": int(guest), "jobnum": int(number), "type": "local"}
    return entry | {key: value for key, value in job.items() if state or key not in _STATE}


async def get_jobs(call: Call) -> Any:
    """Jobs of guests that the caller may audit."""
    return Unordered(
        _shown(name, job)
        for name, job in call.world.replication.items()
        if call.may(f"/vms/{name.partition('-')[0]}", "VM.Audit")
    )


async def get_job(call: Call) -> Any:
    """One job."""
    return _shown(call.params["id"], _get_job(call))


async def create(call: Call) -> Any:
    """A new job; its guest's disks must be such that they can be replicated."""
    name, target = call.params["id"], call.params["target"]
    if name in call.world.replication:
        raise die(f"create replication job failed: replication job '{name}' already exists")
    vm = _guest(call, name)
    if call.world.nodes.find(target) is None:
        raise die(f"create replication job failed: target '{target}' does not exist")
    if target == vm.node:
        raise die("create replication job failed: source and target must be different")
    replicatable(call, vm)
    settings = {key: value for key, value in call.params.items() if key not in ("id", "type")}
    call.world.replication[name] = {"schedule": _SCHEDULE, **settings, "source": vm.node, "fail_count": 0}


async def update(call: Call) -> Any:
    """Other settings."""
    job = _get_job(call)
    for key in split_list(call.params.get("delete", "")):
        job.pop(key, None)
    job |= {key: value for key, value in call.params.items() if key not in ("id", "delete", "digest")}


async def delete(call: Call) -> Any:
    """No more job; the copies go with it unless `keep`."""
    job = _get_job(call)
    vm = call.world.vms.get(int(call.params["id"].partition("-")[0]))
    if vm is not None and not call.flag("keep"):
        storages = call.world.storages
        for volume in replicatable(call, vm):
            copy = storages.find_volume(volume.volid, job["target"])
            if copy is not None and copy is not volume:
                await storages.discard(copy, job["target"])
    del call.world.replication[call.params["id"]]


async def get_states(call: Call) -> Any:
    """The jobs of this host's guests and how they went."""
    return Unordered(
        _shown(name, job, state=True)
        for name, job in call.world.replication.items()
        if (vm := call.world.vms.get(int(name.partition("-")[0]))) is not None
        and vm.node == call.node
        and call.params.get("guest", str(vm.vmid)) == str(vm.vmid)
        and call.may(f"/vms/{vm.vmid}", "VM.Audit")
    )


async def get_state(call: Call) -> Any:
    """How one job went."""
    job = _get_job(call)
    call.require(f"/vms/{call.params['id'].partition('-')[0]}", "VM.Audit")
    return _shown(call.params["id"], job, state=True)


async def run_now(call: Call) -> Any:
    """Run soon, in the background; how it went is in the state."""
    job = _get_job(call)
    vm = _guest(call, call.params["id"])
    call.require(
        f"/vms/{vm.vmid}", "VM.Replicate" if call.world.release.guest_agent_privileges else "VM.Config.Options"
    )
    call.world.spawn(_run(call, vm, job))


async def _run(call: Call, vm: Vm, job: dict[str, Any]) -> None:
    world = call.world
    await world.clock.sleep(world.profile.ha_request_s)
    begin = world.clock.monotonic()
    job["last_try"] = world.clock.time()
    target = world.nodes.find(job["target"])
    if target is None or target.dark:
        job["fail_count"] += 1
        command = f"/usr/bin/ssh -e none -o 'BatchMode=yes' -o 'HostKeyAlias={job['target']}'"
        job["error"] = f"command '{command} root@{target.ip if target else job['target']}' failed: exit code 255"
        return
    try:
        for volume in replicatable(call, vm):
            first = world.storages.find_volume(volume.volid, target.name) is None
            await world.clock.sleep(world.profile.copy_s_per_gib * volume.size_bytes / (1 << 30) if first else 0)
            world.storages.replicate(volume, target.name)
    except ApiError as error:
        job["fail_count"] += 1
        job["error"] = error.message
        return
    job.pop("error", None)
    job |= {"last_sync": world.clock.time(), "duration": world.clock.monotonic() - begin, "fail_count": 0}


_JOB, _ON_NODE = "/cluster/replication/{id}", "/nodes/{node}/replication"
ROUTES: Routes = {
    ("GET", "/cluster/replication"): get_jobs,
    ("POST", "/cluster/replication"): create,
    ("GET", _JOB): get_job,
    ("PUT", _JOB): update,
    ("DELETE", _JOB): delete,
    ("GET", _ON_NODE): get_states,
    ("GET", f"{_ON_NODE}/{{id}}/status"): get_state,
    ("POST", f"{_ON_NODE}/{{id}}/schedule_now"): run_now,
}
