"""The refusals of the API, as Status objects with the wording of Kubernetes 1.37."""

from typing import Any

REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refusal(Exception):
    """Ends a request with `status` and a Status object."""

    def __init__(self, status: int, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = status_object(status, message, reason=reason)


def status_object(status: int, message: str, *, reason: str = "") -> dict[str, Any]:
    """A failure Status as the API server writes it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or REASONS.get(status, ""),
        "code": status,
    }


def not_found(label: str, name: str) -> Refusal:
    return Refusal(404, f'{label} "{name}" not found')


def already_exists(label: str, name: str) -> Refusal:
    return Refusal(409, f'{label} "{name}" already exists', reason="AlreadyExists")


def conflict(label: str, name: str, why: str = "") -> Refusal:
    text = why or "the object has been modified; please apply your changes to the latest version and try again"
    return Refusal(409, f'Operation cannot be fulfilled on {label} "{name}": {text}')


def invalid(label: str, name: str, why: str) -> Refusal:
    return Refusal(422, f'{label} "{name}" is invalid: {why}')


def expired(version: int, oldest: int) -> Refusal:
    return Refusal(410, f"too old resource version: {version} ({oldest})")
