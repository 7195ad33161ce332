"""One table: what Proxmox VE's texts mean. Pure.

There is no 404 and no 409: nearly every refusal is a 500 whose text is all there is, and a failed task has only a text.
Both come through here. Texts are those of Proxmox VE 9.2 as recorded; rows marked "source" were read in the plugins'
source and not recorded. Order matters: the first row that matches wins.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pvekit.errors import (
    Call,
    DigestMismatch,
    DriveNotFound,
    HotplugFailed,
    LockTimeout,
    NodeUnknown,
    NoQuorum,
    NoSpace,
    NotImplementedHere,
    ParameterError,
    Protected,
    PveDenied,
    PveError,
    PveUnknownOutcome,
    PveUnreachable,
    ServerFailure,
    SizeRefused,
    StorageInactive,
    StorageNotFound,
    StorageNotOnNode,
    TaskFailed,
    VmExists,
    VmLocked,
    VmNotHere,
    VolumeExists,
    VolumeInUse,
    VolumeNameRefused,
    VolumeNotFound,
)
from pvekit.upid import Upid


@dataclass(frozen=True, slots=True)
class _Said:
    """A refusal in parts: what every row's maker gets."""

    text: str
    call: Call
    status: int
    reason: str = ""
    upid: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)


_Maker = Callable[[_Said, re.Match[str]], PveError]


def _plain(kind: type[PveError]) -> _Maker:
    return lambda said, _: kind(said.text, call=said.call, status=said.status, reason=said.reason, upid=said.upid)


def _denied(said: _Said, match: re.Match[str]) -> PveError:
    path, privilege = match["path"] or "", match["privilege"] or ""
    if match["other"]:  # "(user != root@pam)", "(pool 'x' does not exist)": no privilege is named
        privilege = "root@pam" if "root@pam" in match["other"] else ""
    return PveDenied(
        said.text,
        call=said.call,
        status=said.status,
        reason=said.reason,
        upid=said.upid,
        privilege=privilege,
        path=path,
    )


def _root_only(said: _Said, _: re.Match[str]) -> PveError:
    return PveDenied(
        said.text, call=said.call, status=said.status, reason=said.reason, upid=said.upid, privilege="root@pam"
    )


def _locked(said: _Said, match: re.Match[str]) -> PveError:
    error = VmLocked(said.text, call=said.call, status=said.status, reason=said.reason, upid=said.upid)
    error.lock = match["lock"]
    return error


def _unproved(said: _Said, _: re.Match[str]) -> PveError:
    error = VolumeNotFound(said.text, call=said.call, status=said.status, reason=said.reason, upid=said.upid)
    error.proved = False
    return error


def _hotplug(said: _Said, _: re.Match[str]) -> PveError:
    texts = said.errors or {found["key"]: found["why"].strip() for found in _HOTPLUG_IN_TASK.finditer(said.text)}
    error = HotplugFailed(said.text, call=said.call, status=said.status, reason=said.reason, upid=said.upid)
    error.texts = texts
    return error


# A task puts the whole parameter error on one line: "400 Parameter verification failed. scsi2: hotplug problem - …".
_HOTPLUG_IN_TASK = re.compile(
    r"(?P<key>[a-z]+\d*): (?P<why>(?:hotplug problem|unable to apply pending change).*?)"
    r"(?=\s[a-z]+\d*: (?:hotplug problem|unable to apply)|$)",
    re.DOTALL,
)

_TABLE: tuple[tuple[re.Pattern[str], _Maker], ...] = tuple(
    (re.compile(pattern, re.DOTALL), maker)
    for pattern, maker in (
        # rights; also inside a hot-plug text: "unable to apply pending change scsi1 : 403 Permission check failed (…)"
        (
            r"Permission check failed(?: \((?:(?P<path>/[^,()]*), (?P<privilege>[A-Za-z.|]+)|(?P<other>[^)]*))\))?",
            _denied,
        ),
        (r"Only root can pass arbitrary|only root can (?:set|modify)|Only root may use", _root_only),
        # the cluster
        (r"no quorum|/etc/pve/\S+' - Permission denied", _plain(NoQuorum)),
        (r"hostname lookup '[^']*' failed|no such cluster node", _plain(NodeUnknown)),
        # locks and concurrent changes
        (r"checksum mismatch \(file change|detected modified configuration", _plain(DigestMismatch)),
        (r"VM is locked \((?P<lock>[^)]*)\)", _locked),
        (
            r"can't lock file '[^']*' - got timeout|got lock request timeout|error: got lock timeout",
            _plain(LockTimeout),
        ),
        # the running guest
        (r"hotplug problem - |unable to apply pending change ", _hotplug),
        # the VM
        (r"Configuration file '[^']*' does not exist|unable to find configuration file", _plain(VmNotHere)),
        (r"protection mode enabled", _plain(Protected)),
        (r"[Dd]isk '[^']*'(?: for VM '\d+')? does not exist", _plain(DriveNotFound)),
        # storages; before the volumes, whose texts may be quoted inside a longer one
        (r"storage '[^']*' does not exist|No such storage", _plain(StorageNotFound)),
        (r"storage '[^']*' is (?:disabled|not available on node)", _plain(StorageNotOnNode)),
        (r"unable to activate storage|storage '[^']*' is not online", _plain(StorageInactive)),
        # volumes
        (r"not enough free space|No space left on device|insufficient free space|out of space", _plain(NoSpace)),
        (r"shrinking disks is not supported", _plain(SizeRefused)),
        # source: zfs, rbd
        (r"base volume '[^']*' is still in use|dataset is busy|still has watchers", _plain(VolumeInUse)),
        (r"Logical volume \S+ (?:contains a filesystem )?in use", _plain(VolumeInUse)),
        (r"volume '[^']*' does not exist", _plain(VolumeNotFound)),
        (r"no such logical volume|Failed to find logical volume", _plain(VolumeNotFound)),
        (r"dataset does not exist|\(2\) No such file or directory", _plain(VolumeNotFound)),  # source: zfs, rbd
        (r"volume_size_info on '[^']*' failed", _unproved),
        (r"disk image '[^']*' already exists|[Ll]ogical [Vv]olume \"[^\"]*\" already exists", _plain(VolumeExists)),
        (r"dataset already exists|\(17\) File exists", _plain(VolumeExists)),  # source: zfs, rbd
        (r"unable to parse \w+ vol(?:ume )?(?:file)?name '|unable to parse volume filename", _plain(VolumeNameRefused)),
        (
            r"unable to parse (?:\w+ )?volume name '|illegal name '|contains illegal characters",
            _plain(VolumeNameRefused),
        ),
        (
            r"unsupported format '|does not match requested format|different from storage format",
            _plain(VolumeNameRefused),
        ),
        # ids
        (r"VM \d+ already exists|config file already exists", _plain(VmExists)),
    )
)


def of_answer(status: int, reason: str, body: Any, *, call: Call) -> PveError:
    """The error that an answer stands for. `body` is the parsed JSON, a text, or None (401, 595 and 596 have none)."""
    message, errors = "", {}
    if isinstance(body, Mapping):
        message = str(body.get("message") or "")
        raw = body.get("errors")
        errors = {str(key): str(why).strip() for key, why in raw.items()} if isinstance(raw, Mapping) else {}
    text = _one_line(message) or _one_line(reason) or f"status {status}"
    said = _Said(text, call, status, reason, errors=errors)
    if status == 401:
        return PveDenied(text, call=call, status=status, reason=reason)
    if status == 595:
        return PveUnreachable(f"the target host cannot be reached: {text}", call=call, status=status, reason=reason)
    if status in {502, 503, 504, 596, 599}:
        return PveUnknownOutcome(f"no answer from the target host: {text}", call=call, status=status, reason=reason)
    if status == 501:
        return NotImplementedHere(text, call=call, status=status, reason=reason)
    if status == 400:
        return _of_parameters(said)
    return _of_text(said) or ServerFailure(text, call=call, status=status, reason=reason)


def of_task(text: str, *, upid: Upid, call: Call) -> PveError:
    """The error that a task's exit text stands for; TaskFailed when no row knows it."""
    said = _Said(_one_line(text), call, 0, upid=str(upid))
    return _of_text(said) or TaskFailed(said.text, call=call, upid=str(upid))


def _of_text(said: _Said) -> PveError | None:
    for pattern, maker in _TABLE:
        if match := pattern.search(said.text):
            return maker(said, match)
    return None


def _of_parameters(said: _Said) -> PveError:
    """A 400: what the hot-plug refused comes in the same form as a schema check, and so do a few domain errors."""
    listed = "; ".join(f"{key}: {_one_line(why)}" for key, why in sorted(said.errors.items()))
    if listed:
        known = _of_text(_Said(listed, said.call, said.status, said.reason, errors=said.errors))
        if isinstance(known, PveDenied | HotplugFailed | StorageNotFound | VolumeNameRefused):
            return known
    error = ParameterError(listed or said.text, call=said.call, status=said.status, reason=said.reason)
    error.errors = said.errors
    return error


def _one_line(text: str) -> str:
    return " ".join(text.split())
