"""The table from errors to codes: one row per meaning, inherited, extendable."""

import inspect

import pytest
from grpc import StatusCode

from appkit import errors
from csikit.status import DEFAULT_ROWS, StatusTable

EXPECTED = [
    (errors.DriverError, StatusCode.INTERNAL),
    (errors.InvalidRequest, StatusCode.INVALID_ARGUMENT),
    (errors.OutOfRange, StatusCode.OUT_OF_RANGE),
    (errors.NotFound, StatusCode.NOT_FOUND),
    (errors.AlreadyExists, StatusCode.ALREADY_EXISTS),
    (errors.FailedPrecondition, StatusCode.FAILED_PRECONDITION),
    (errors.ResourceExhausted, StatusCode.RESOURCE_EXHAUSTED),
    (errors.Pending, StatusCode.ABORTED),
    (errors.Unavailable, StatusCode.UNAVAILABLE),
    (errors.Denied, StatusCode.PERMISSION_DENIED),
    (errors.Unsupported, StatusCode.UNIMPLEMENTED),
    (errors.Corrupt, StatusCode.DATA_LOSS),
    (NotImplementedError, StatusCode.UNIMPLEMENTED),
]


@pytest.mark.parametrize(("kind", "code"), EXPECTED, ids=lambda value: getattr(value, "__name__", None))
def test_default_row(kind: type[Exception], code: StatusCode) -> None:
    assert StatusTable().find_code(kind("x")) is code


def test_every_error_of_the_tree_has_its_own_row() -> None:
    tree = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.DriverError)}
    assert tree <= set(DEFAULT_ROWS)


def test_a_subclass_needs_no_row() -> None:
    class VmLocked(errors.Pending):
        pass

    class VmLockedByBackup(VmLocked):
        pass

    assert StatusTable().find_code(VmLockedByBackup("x")) is StatusCode.ABORTED


def test_the_nearest_base_decides() -> None:
    class Foreign(Exception):
        pass

    class Mixed(Foreign, errors.NotFound):
        pass

    table = StatusTable({Foreign: StatusCode.UNAVAILABLE})
    assert table.find_code(Mixed("x")) is StatusCode.UNAVAILABLE
    assert StatusTable().find_code(Mixed("x")) is StatusCode.NOT_FOUND


def test_a_row_of_the_service_replaces_the_default() -> None:
    table = StatusTable({errors.Pending: StatusCode.UNAVAILABLE})
    assert table.find_code(errors.Pending("x")) is StatusCode.UNAVAILABLE
    assert StatusTable().find_code(errors.Pending("x")) is StatusCode.ABORTED


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), TimeoutError(), OSError(5, "x")])
def test_unplanned_errors_have_no_code(error: Exception) -> None:
    assert StatusTable().find_code(error) is None
