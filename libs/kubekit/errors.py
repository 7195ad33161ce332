"""What the Kubernetes API can answer, mapped to what the caller should do.

Every class is also one of appkit.errors', so code that does not care about Kubernetes catches that. Must not be raised
for anything but an answer, or the lack of one, from the API server.

    KubeError
    ├── KubeNotFound         404                                                   (NotFound)
    ├── KubeConflict         409, the object changed since it was read             (Pending)
    ├── KubeAlreadyExists    409 with reason AlreadyExists                         (AlreadyExists)
    ├── KubeGone             410, the resource version is too old: list again      (Unavailable)
    ├── KubeDenied           401 and 403; verb and resource named by the server    (Denied)
    ├── KubeInvalid          400, 405, 406, 413, 415, 422                          (InvalidRequest)
    ├── KubeUnavailable      429, 5xx, or an answer that is not the API's          (Unavailable)
    ├── KubeUnreachable      no connection: the request was never sent             (Unavailable)
    └── KubeUnknownOutcome   sent, but no whole answer: done or not done           (Unavailable)
"""

from appkit.errors import AlreadyExists, Denied, DriverError, InvalidRequest, NotFound, Pending, Unavailable


class KubeError(DriverError):
    """Base. `status` is 0 when there was no answer; `reason` is the API's word, for instance `Conflict`."""

    def __init__(self, text: str, *, method: str = "", path: str = "", status: int = 0, reason: str = "") -> None:
        super().__init__(f"Kubernetes API, {method} {path}: {text}" if method else text)
        self.method = method
        self.path = path
        self.status = status
        self.reason = reason


class KubeNotFound(KubeError, NotFound):
    """The object, its namespace or the resource type does not exist."""


class KubeConflict(KubeError, Pending):
    """The object changed (or was replaced) since it was read; read again and decide anew."""


class KubeAlreadyExists(KubeError, AlreadyExists):
    """An object of this name exists."""


class KubeGone(KubeError, Unavailable):
    """The resource version is no longer in the server's history."""


class KubeDenied(KubeError, Denied):
    """Not allowed, or not known who asks. `privilege` is the verb, `path` the resource path."""

    def __init__(self, text: str, *, method: str = "", path: str = "", status: int = 0, reason: str = "") -> None:
        KubeError.__init__(self, text, method=method, path=path, status=status, reason=reason)
        self.privilege = method.lower()


class KubeInvalid(KubeError, InvalidRequest):
    """The API server refuses the request as it is."""


class KubeUnavailable(KubeError, Unavailable):
    """The API server cannot answer now. `retry_after_s` is its own advice, None when it gave none."""

    retry_after_s: float | None = None


class KubeUnreachable(KubeError, Unavailable):
    """No connection could be made; nothing has happened."""


class KubeUnknownOutcome(KubeError, Unavailable):
    """The request was sent and no whole answer came; a write may or may not have been done."""


_BY_STATUS: dict[int, type[KubeError]] = {
    401: KubeDenied,
    403: KubeDenied,
    404: KubeNotFound,
    409: KubeConflict,
    410: KubeGone,
    **dict.fromkeys((400, 405, 406, 413, 415, 422), KubeInvalid),
}


def error_of_status(method: str, path: str, status: int, body: object) -> KubeError:
    """The error for an answer with `status` (400 or more) and its decoded `body`, normally a `Status` object."""
    known = body if isinstance(body, dict) else {}
    reason = str(known.get("reason") or "")
    text = str(known.get("message") or "") or "no message"
    kind = KubeAlreadyExists if (status, reason) == (409, "AlreadyExists") else _BY_STATUS.get(status, KubeUnavailable)
    error = kind(f"{text} (status {status})", method=method, path=path, status=status, reason=reason)
    if isinstance(error, KubeUnavailable):
        details = known.get("details")
        after = details.get("retryAfterSeconds") if isinstance(details, dict) else None
        error.retry_after_s = float(after) if isinstance(after, int | float) else None
    return error
