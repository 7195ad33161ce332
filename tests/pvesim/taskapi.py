"""/nodes/{node}/tasks: status, log, list. A task is its own caller's; others need Sys.Audit on the node."""

import re
from typing import Any

from tests.pvesim.answers import WithExtra
from tests.pvesim.call import Call, Routes
from tests.pvesim.clusterapi import task_entry
from tests.pvesim.errors import param_error
from tests.pvesim.tasks import Task

_UPID = re.compile(
    r"UPID:([a-zA-Z0-9][a-zA-Z0-9\-]*):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):([0-9A-Fa-f]{8}):([^:\s]+):([^:\s]*):([^:\s]+):"
)


def _find(call: Call, privilege: str = "Sys.Audit") -> Task | None:
    upid = call.params["upid"]
    match = _UPID.fullmatch(upid)
    if match is None:
        raise param_error(upid="unable to parse worker upid")
    if match[7] != call.who.auth_id:
        call.require(f"/nodes/{call.node}", privilege)
    task = call.world.tasks.by_upid.get(upid)
    return task if task is not None and task.node == call.node else None


async def get_status(call: Call) -> Any:
    """running or stopped; the only place where a failed task's text is, besides its log."""
    task = _find(call)
    if task is None:
        raise param_error(upid="no such task")
    entry = task_entry(task)
    entry.pop("endtime", None)
    entry["status"] = "running" if task.exitstatus is None else "stopped"
    if task.exitstatus is not None:
        entry["exitstatus"] = task.exitstatus
    return entry


async def get_log(call: Call) -> Any:
    """Numbered lines and their total; an unknown task has one line that says so."""
    task = _find(call)
    lines = task.log if task is not None else ["unable to open file - No such file or directory"]
    start, limit = int(call.params.get("start", "0")), int(call.params.get("limit", "50"))
    shown = lines[start : start + limit] if limit else lines[start:]
    numbered = [{"n": start + i + 1, "t": line} for i, line in enumerate(shown)]
    return WithExtra(data=numbered or [{"n": start + 1, "t": "no content"}], total=len(lines))


async def stop(call: Call) -> Any:
    """Kill it; stopping a finished task is harmless."""
    task = _find(call, "Sys.Modify")
    if task is not None:
        await call.world.tasks.kill(task)


async def get_task(call: Call) -> Any:
    """What there is below a task."""
    return [{"name": "log"}, {"name": "status"}]


async def get_list(call: Call) -> Any:
    """Tasks of this node; without Sys.Audit the caller's own. `source`: archive (ended), active (running), or all."""
    audit = call.may(f"/nodes/{call.node}", "Sys.Audit")
    source = call.params.get("source", "archive")
    tasks = [
        t
        for t in reversed(list(call.world.tasks.by_upid.values()))
        if t.node == call.node and source in ("all", "active" if t.exitstatus is None else "archive")
    ]
    if "vmid" in call.params:
        tasks = [t for t in tasks if t.id == call.params["vmid"]]
    if call.flag("errors"):
        tasks = [t for t in tasks if t.failed]
    visible = [t for t in tasks if audit or t.who == call.who]
    start, limit = int(call.params.get("start", "0")), int(call.params.get("limit", "50"))
    shown = [task_entry(t) for t in visible[start : start + limit]]
    return WithExtra(data=shown, total=len(visible)) if visible else []


ROUTES: Routes = {
    ("GET", "/nodes/{node}/tasks"): get_list,
    ("GET", "/nodes/{node}/tasks/{upid}"): get_task,
    ("GET", "/nodes/{node}/tasks/{upid}/status"): get_status,
    ("GET", "/nodes/{node}/tasks/{upid}/log"): get_log,
    ("DELETE", "/nodes/{node}/tasks/{upid}"): stop,
}
