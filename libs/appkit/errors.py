"""The error tree, named by what the caller should do.

Domain code raises these; nothing below a gRPC servicer knows a status code (csikit.status has the one table, looked
up along the class tree). Kits add subclasses that carry the foreign cause (pvekit.errors, kubekit.errors).

    DriverError                a fault of ours unless a subclass says otherwise (INTERNAL)
    ├── InvalidRequest         the request is wrong and will stay wrong (INVALID_ARGUMENT)
    ├── OutOfRange             a size that cannot be met (OUT_OF_RANGE)
    ├── NotFound               proved not to exist (NOT_FOUND)
    ├── AlreadyExists          same name, other content (ALREADY_EXISTS)
    ├── FailedPrecondition     someone must act first, e.g. attached elsewhere (FAILED_PRECONDITION)
    ├── ResourceExhausted      no slot, no space (RESOURCE_EXHAUSTED)
    ├── Pending                an operation on the same thing still runs; call again (ABORTED)
    ├── Unavailable            cannot be reached or cannot be known now; call again (UNAVAILABLE)
    ├── Denied                 a right is missing; names the privilege and the path (PERMISSION_DENIED)
    ├── Unsupported            well-formed, but not something this driver does (UNIMPLEMENTED)
    └── Corrupt                found something that must not be touched (DATA_LOSS)
"""


class DriverError(Exception):
    """Base of every error that is meant to reach a caller. `str()` is the text the user reads."""


class InvalidRequest(DriverError):
    """The request is wrong in itself: a bad parameter, name or identifier. Retrying cannot help."""


class OutOfRange(DriverError):
    """The size asked for cannot be met: below the present size, or above the limit."""


class NotFound(DriverError):
    """The object was proved not to exist. Never raised because a list was merely short."""


class AlreadyExists(DriverError):
    """An object of this name exists with other content (size, format, source)."""


class FailedPrecondition(DriverError):
    """Somebody must act first: detach the volume elsewhere, change a VM option, stage before publishing."""


class ResourceExhausted(DriverError):
    """No free slot, no free space, no free id."""


class Pending(DriverError):
    """An operation on the same object is still running; the caller should repeat the call later."""


class Unavailable(DriverError):
    """Could not be reached, or the outcome could not be learnt; repeating the call is right and safe."""


class Denied(DriverError):
    """A right is missing.

    `privilege` is the Proxmox privilege or Kubernetes verb, `path` where it must be granted; both may be empty only
    when the server itself did not say (a bare "Permission check failed"), and then the message tells what was tried.
    """

    def __init__(self, message: str, *, privilege: str = "", path: str = "") -> None:
        super().__init__(message)
        self.privilege = privilege
        self.path = path


class Unsupported(DriverError):
    """A well-formed request for something that this driver, storage type or Proxmox release cannot do."""


class Corrupt(DriverError):
    """Something was found that must not be touched: a foreign signature on a disk, a volume that is not ours."""
