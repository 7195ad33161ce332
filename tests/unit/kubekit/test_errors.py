import pytest

from appkit import errors as meaning
from kubekit import errors
from kubekit.errors import KubeDenied, KubeUnavailable, error_of_status


@pytest.mark.parametrize(
    ("status", "reason", "kind", "means"),
    [
        (400, "BadRequest", errors.KubeInvalid, meaning.InvalidRequest),
        (401, "Unauthorized", errors.KubeDenied, meaning.Denied),
        (403, "Forbidden", errors.KubeDenied, meaning.Denied),
        (404, "NotFound", errors.KubeNotFound, meaning.NotFound),
        (405, "MethodNotAllowed", errors.KubeInvalid, meaning.InvalidRequest),
        (409, "AlreadyExists", errors.KubeAlreadyExists, meaning.AlreadyExists),
        (409, "Conflict", errors.KubeConflict, meaning.Pending),
        (410, "Expired", errors.KubeGone, meaning.Unavailable),
        (413, "RequestEntityTooLarge", errors.KubeInvalid, meaning.InvalidRequest),
        (415, "UnsupportedMediaType", errors.KubeInvalid, meaning.InvalidRequest),
        (422, "Invalid", errors.KubeInvalid, meaning.InvalidRequest),
        (429, "TooManyRequests", errors.KubeUnavailable, meaning.Unavailable),
        (500, "InternalError", errors.KubeUnavailable, meaning.Unavailable),
        (503, "", errors.KubeUnavailable, meaning.Unavailable),
        (504, "Timeout", errors.KubeUnavailable, meaning.Unavailable),
        (418, "", errors.KubeUnavailable, meaning.Unavailable),
    ],
)
def test_the_table(status: int, reason: str, kind: type[Exception], means: type[Exception]) -> None:
    error = error_of_status("PATCH", "/api/v1/nodes/n1", status, {"reason": reason, "message": "why"})
    assert type(error) is kind
    assert isinstance(error, means)
    assert str(error) == f"Kubernetes API, PATCH /api/v1/nodes/n1: why (status {status})"
    assert (error.status, error.reason) == (status, reason)


def test_a_refusal_names_verb_and_path() -> None:
    error = error_of_status("PATCH", "/api/v1/nodes/n1", 403, {})
    assert isinstance(error, KubeDenied)
    assert (error.privilege, error.path) == ("patch", "/api/v1/nodes/n1")


@pytest.mark.parametrize("body", [None, "<html>", [], {"details": "x"}, {"details": {"retryAfterSeconds": "soon"}}])
def test_a_body_that_is_no_status_object(body: object) -> None:
    error = error_of_status("GET", "/x", 503, body)
    assert isinstance(error, KubeUnavailable)
    assert error.retry_after_s is None


def test_the_servers_advice_when_to_retry() -> None:
    error = error_of_status("GET", "/x", 429, {"details": {"retryAfterSeconds": 7}})
    assert isinstance(error, KubeUnavailable)
    assert error.retry_after_s == 7
