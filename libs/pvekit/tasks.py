"""Waiting for Proxmox VE's tasks: the only place that does.

A task ends in one of four ways: done (with or without warnings), failed with its own text, still running when the wait
ends, or not to be learnt.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appkit.clock import Clock
from pvekit.api_path import api_path
from pvekit.client import PveClient
from pvekit.errors import (
    Call,
    ParameterError,
    PveDenied,
    PveError,
    PveUnknownOutcome,
    PveUnreachable,
    ServerFailure,
    TaskTimeout,
    TaskUnknown,
)
from pvekit.purpose import purpose
from pvekit.refusals import of_task
from pvekit.scalars import Scalar, as_int, as_str
from pvekit.upid import Upid

DEFAULT_WAIT_S = 60.0
_POLL_TIMEOUT_S = 10.0
_MAX_DELAY_S = 2.0
_REMEMBERED = 200
_EMPTY_ENDS = 5
"""How often a stopped task may lack its exit status before its end counts as not to be learnt."""


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The task ended well. `warnings` counts what it complained of ("WARNINGS: 2"); `upid` is None if there was
    none.
    """

    warnings: int = 0
    upid: Upid | None = None


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that ended badly: `error` as `Tasks.wait` would have raised it, `ended_at` in Unix seconds of its host."""

    upid: Upid
    error: PveError
    ended_at: int


class Tasks:
    """Follows tasks of one region."""

    def __init__(self, client: PveClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def wait(self, upid: Upid | None, *, timeout_s: float = DEFAULT_WAIT_S) -> TaskDone:
        """Wait until the task has ended; None (an answer that was already complete) is done at once.

        Raises the class of `pvekit.errors` that the task's text stands for, with `upid` set (TaskFailed for a text
        that is not known), TaskTimeout while it still runs, TaskUnknown when its host does not answer or does not
        know the task. Polls are marked as such, go to the host that the UPID names, and come quickly at first.
        """
        if upid is None:
            return TaskDone()
        call = Call(self._client.region, "GET", api_path("nodes", upid.node, "tasks", str(upid), "status"))
        deadline = self._clock.monotonic() + timeout_s
        trouble: PveError | None = None
        empty_ends = 0
        for delay_s in _delays():
            await self._clock.sleep(max(0.0, min(delay_s, deadline - self._clock.monotonic())))
            try:
                status = await self._poll(call, deadline)
                trouble = None
            except (PveUnreachable, PveUnknownOutcome, ServerFailure) as error:
                status, trouble = {}, error
            except (ParameterError, PveDenied) as error:
                raise TaskUnknown(
                    f"the end of the task cannot be learnt: {error.text}", call=call, upid=str(upid)
                ) from error
            if as_str(status.get("status")) == "stopped":
                exit_text = as_str(status.get("exitstatus"))
                if exit_text and exit_text != "unexpected status":
                    return _ended(upid, exit_text, call)
                empty_ends += 1
            if empty_ends >= _EMPTY_ENDS:
                raise TaskUnknown("the task stopped without an exit status", call=call, upid=str(upid))
            if self._clock.monotonic() >= deadline:
                break
        if trouble is not None:
            raise TaskUnknown(
                f"the task's host does not answer: {trouble.text}", call=call, upid=str(upid)
            ) from trouble
        raise TaskTimeout(f"still running after {timeout_s:g} s", call=call, upid=str(upid))

    async def running(self, node: str) -> list[Upid]:
        """This token's tasks that run on a host now; others are not shown without Sys.Audit."""
        found = await self._client.get_list(api_path("nodes", node, "tasks"), {"source": "active"})
        return [upid for entry in found if not entry.get("endtime") and (upid := _upid_of(entry)) is not None]

    async def failed(self, node: str, kind: str) -> list[FailedTask]:
        """This token's latest tasks of a kind ("qmconfig") on a host that ended badly, the last first: one request."""
        params: dict[str, Scalar] = {"errors": True, "typefilter": kind, "limit": _REMEMBERED}
        path = api_path("nodes", node, "tasks")
        call = Call(self._client.region, "GET", path)
        failed = []
        for entry in await self._client.get_list(path, params):
            text, upid = as_str(entry.get("status")), _upid_of(entry)
            if text and upid is not None and upid.type == kind and not text.startswith(("OK", "WARNINGS:")):
                failed.append(
                    FailedTask(upid, of_task(text, upid=upid, call=call), as_int(entry.get("endtime"), 0) or 0)
                )
        return failed

    async def _poll(self, call: Call, deadline: float) -> dict[str, Any]:
        left_s = max(1.0, deadline - self._clock.monotonic())
        with purpose("poll"):
            status = await self._client.get(call.path, timeout_s=min(_POLL_TIMEOUT_S, left_s))
        return status if isinstance(status, dict) else {}


def started(answer: Any, call: Call) -> Upid | None:
    """The task that a write's answer names; None for null, which says that all is done.

    PveUnknownOutcome for anything else: the write was carried out somehow, and its task cannot be followed.
    """
    if answer is None:
        return None
    try:
        return Upid.parse(answer if isinstance(answer, str) else "")
    except ValueError as error:
        raise PveUnknownOutcome("the answer names no task to follow", call=call, status=200) from error


def _upid_of(entry: Mapping[str, Any]) -> Upid | None:
    try:
        return Upid.parse(as_str(entry.get("upid")) or "")
    except ValueError:
        return None


def _ended(upid: Upid, exit_text: str, call: Call) -> TaskDone:
    if exit_text == "OK":
        return TaskDone(0, upid)
    if exit_text.startswith("WARNINGS:"):
        return TaskDone(as_int(exit_text.partition(":")[2].strip(), 1) or 1, upid)
    raise of_task(exit_text, upid=upid, call=call)


def _delays() -> Iterator[float]:
    delay_s = 0.05
    while True:
        yield delay_s
        delay_s = min(delay_s * 2 if delay_s < 0.8 else delay_s + 0.4, _MAX_DELAY_S)
