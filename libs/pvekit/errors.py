"""What Proxmox VE refused, by what the caller should do. The texts are told apart in `pvekit.refusals`, one table.

    PveError (DriverError)       region, method, api_path, status, reason; upid when a task said it
    ├── PveDenied                (Denied) 403 and 401; privilege and ACL path as the server named them
    ├── PveUnreachable           (Unavailable) never sent or never delivered: connection refused, 595
    │   └── NodeUnknown          a host name that the answering host cannot resolve: removed, or never there
    ├── PveUnknownOutcome        (Unavailable) sent, no answer: 596, time-out, cut; look before doing it again
    ├── VmNotHere                (Unavailable) no config file on that host: moved or gone, not a proof of either
    ├── VmExists                 (AlreadyExists)
    ├── VmLocked                 (Pending) a backup, migration or snapshot runs; `.lock`
    ├── LockTimeout              (Pending) a config or storage lock was not got in time
    ├── DigestMismatch           (Pending) the config changed since it was read
    ├── Protected                (FailedPrecondition) protection=1
    ├── HotplugFailed            (Unavailable) the running guest's side of a config change failed; `.keys`, `.texts`
    ├── DriveNotFound            (FailedPrecondition) no such drive in the VM
    ├── VolumeNotFound           (NotFound) `.proved` tells whether the text leaves no other reading
    ├── VolumeExists             (AlreadyExists)
    ├── VolumeInUse              (FailedPrecondition) an open device or linked clones
    ├── VolumeNameRefused        (InvalidRequest) the storage type does not take this name or format
    ├── StorageNotFound          (InvalidRequest)
    ├── StorageNotOnNode         (FailedPrecondition) disabled, or not meant for that host
    ├── StorageInactive          (Unavailable) configured there, but not mounted or not activated
    ├── NoSpace                  (ResourceExhausted)
    ├── SizeRefused              (OutOfRange) shrinking
    ├── NoQuorum                 (Unavailable)
    ├── ParameterError           (InvalidRequest) `.errors` by parameter
    ├── NotImplementedHere       (Unsupported) 501
    ├── TaskFailed               (Unavailable) a task's own text that the table does not know
    ├── TaskTimeout              (Pending) still runs
    ├── TaskUnknown              (Unavailable) its end cannot be learnt
    └── ServerFailure            (Unavailable) any other error text

No error carries a request's parameters, so none can carry a secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Call:
    """Which request an error belongs to. `path` is the API path below /api2/json; no parameters are kept."""

    region: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}, region {self.region}"


class PveError(DriverError):
    """Base of all. `text` is the server's own text (several lines joined), `status` 0 when there was no answer.

    `upid` is set when the text is the end of a task. The request's path is `api_path`, since `Denied.path` is an ACL
    path.
    """

    def __init__(self, text: str, *, call: Call, status: int = 0, reason: str = "", upid: str = "") -> None:
        self.text = text
        self.region = call.region
        self.method = call.method
        self.api_path = call.path
        self.status = status
        self.reason = reason
        self.upid = upid
        self.call = call
        DriverError.__init__(self, self.describe())

    def describe(self) -> str:
        """The text a user reads: the server's words, then which request or task said them."""
        where = f"task {self.upid}, region {self.region}" if self.upid else str(self.call)
        return f"{self.text} ({where})"


class PveDenied(PveError, Denied):
    """A right is missing, or (status 401) the token itself was refused; then `privilege` and `path` are empty."""

    def __init__(
        self,
        text: str,
        *,
        call: Call,
        status: int = 403,
        reason: str = "",
        upid: str = "",
        privilege: str = "",
        path: str = "",
    ) -> None:
        self.privilege = privilege
        self.path = path
        PveError.__init__(self, text, call=call, status=status, reason=reason, upid=upid)

    def describe(self) -> str:
        """Names the privilege and the path first; says so when the server did not tell."""
        if self.privilege and self.path:
            return f"the Proxmox VE user or token lacks {self.privilege} on {self.path} ({self.call})"
        if self.privilege:
            return f"Proxmox VE allows this to {self.privilege} only: {self.text} ({self.call})"
        if self.status == 401:
            return f"Proxmox VE refused the API token: {self.text}; check its id, secret and expiry ({self.call})"
        return f"Proxmox VE refused the request without naming the privilege: {self.text} ({self.call})"


class PveUnreachable(PveError, Unavailable):
    """Nothing was done: no connection to the API, or the API host could not reach the target host (595)."""


class NodeUnknown(PveUnreachable):
    """The host name in the path does not resolve on the answering host."""


class PveUnknownOutcome(PveError, Unavailable):
    """The request was sent and may have been carried out, now or later. The caller reads the state before repeating."""


class VmNotHere(PveError, Unavailable):
    """The VM's config is not on the host that was asked: moved, or destroyed. Ask `Locator.find` which."""


class VmExists(PveError, AlreadyExists):
    """The VM id is in use."""


class VmLocked(PveError, Pending):
    """The VM carries a lock (`lock`: backup, migrate, snapshot, rollback, …); Proxmox VE changes nothing meanwhile."""

    lock: str = ""


class LockTimeout(PveError, Pending):
    """Somebody else held the config or storage lock for Proxmox VE's ten seconds."""


class DigestMismatch(PveError, Pending):
    """The config was changed between our read and our write; nothing was written."""


class Protected(PveError, FailedPrecondition):
    """The VM has protection=1: no drive of it can be removed until an operator clears that."""


class HotplugFailed(PveError, Unavailable):
    """The config was stored, but the running guest did not follow. `texts`: reason by config key ("scsi3")."""

    texts: Mapping[str, str] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """The config keys that failed."""
        return tuple(self.texts)


class DriveNotFound(PveError, FailedPrecondition):
    """The VM has no such drive (any more)."""


class VolumeNotFound(PveError, NotFound):
    """The volume does not exist.

    `proved` is False for texts that Proxmox VE also gives when it could not examine an image in time ("no format"):
    good enough to answer "not found", not to destroy or forget anything.
    """

    proved: bool = True


class VolumeExists(PveError, AlreadyExists):
    """A volume of this name exists; the text is the same for any size, so the caller compares."""


class VolumeInUse(PveError, FailedPrecondition):
    """The volume is open on a host, or template base of linked clones."""


class VolumeNameRefused(PveError, InvalidRequest):
    """The storage type cannot have a volume of this name or format."""


class StorageNotFound(PveError, InvalidRequest):
    """No storage of this name is configured in the cluster."""


class StorageNotOnNode(PveError, FailedPrecondition):
    """The storage is disabled, or not meant for the host that was asked."""


class StorageInactive(PveError, Unavailable):
    """The storage is configured for the host, but not mounted or not activated there."""


class NoSpace(PveError, ResourceExhausted):
    """The storage has not enough free space."""


class SizeRefused(PveError, OutOfRange):
    """The size asked for cannot be: shrinking is not supported."""


class NoQuorum(PveError, Unavailable):
    """The answering host has no quorum: the cluster's configuration is read-only there."""


class ParameterError(PveError, InvalidRequest):
    """Schema check failed; `errors`: reason by parameter."""

    errors: Mapping[str, str] = {}

    def describe(self) -> str:
        """Lists the parameters with their reasons."""
        listed = "; ".join(f"{name}: {' '.join(why.split())}" for name, why in sorted(self.errors.items()))
        return f"Proxmox VE refused the parameters: {listed or self.text} ({self.call})"


class NotImplementedHere(PveError, Unsupported):
    """501: this release of Proxmox VE has no such call."""


class TaskFailed(PveError, Unavailable):
    """A task ended badly with a text that no row of the table knows. Known texts raise their own class, with `upid`
    set.
    """


class TaskTimeout(PveError, Pending):
    """The task was still running when the wait ended; it goes on. `upid` names it."""


class TaskUnknown(PveError, Unavailable):
    """The task's end cannot be learnt: its host does not answer, or does not know it."""


class ServerFailure(PveError, Unavailable):
    """Any other refusal, in the server's own words."""
