"""From a range to a size: defaults, rounding, limits, contradictions."""

import pytest

from appkit.errors import DriverError, InvalidRequest, OutOfRange
from csikit.capacity import resolve
from csikit.pb import csi_pb2

MIB, GIB = 1 << 20, 1 << 30
INT64_MAX = 2**63 - 1


def size(
    required: int = 0, limit: int = 0, *, step: int = 4 * MIB, minimum: int = 1 * GIB, default: int = 10 * GIB
) -> int:
    wanted = csi_pb2.CapacityRange(required_bytes=required, limit_bytes=limit)
    return resolve(wanted, default_bytes=default, step_bytes=step, minimum_bytes=minimum)


@pytest.mark.parametrize(
    ("required", "limit", "expected"),
    [
        (0, 0, 10 * GIB),
        (1, 0, 1 * GIB),
        (GIB, 0, GIB),
        (GIB + 1, 0, GIB + 4 * MIB),
        (5 * GIB, 5 * GIB, 5 * GIB),
        (5 * GIB, 6 * GIB, 5 * GIB),
        (5 * GIB + 1, 5 * GIB + 4 * MIB, 5 * GIB + 4 * MIB),
        (1, GIB, GIB),
        (0, 100 * GIB, 10 * GIB),
        (0, 10 * GIB, 10 * GIB),
        (0, 5 * GIB, 5 * GIB),
        (0, 5 * GIB + 3 * MIB, 5 * GIB),
        (0, GIB, GIB),
        (1 << 50, 0, 1 << 50),
    ],
)
def test_sizes(required: int, limit: int, expected: int) -> None:
    assert size(required, limit) == expected


@pytest.mark.parametrize(
    ("required", "limit", "error"),
    [
        (-1, 0, InvalidRequest),
        (0, -1, InvalidRequest),
        (2 * GIB, GIB, InvalidRequest),
        (5 * GIB + 1, 5 * GIB + 1, OutOfRange),
        (1, GIB - 1, OutOfRange),
        (0, GIB - 1, OutOfRange),
        (0, 1, OutOfRange),
        (INT64_MAX, 0, OutOfRange),
        (INT64_MAX, INT64_MAX, OutOfRange),
    ],
)
def test_impossible_ranges(required: int, limit: int, error: type[DriverError]) -> None:
    with pytest.raises(error) as raised:
        size(required, limit)
    assert str(required) in str(raised.value)


def test_no_range_at_all() -> None:
    assert resolve(None, default_bytes=GIB, step_bytes=1024, minimum_bytes=1) == GIB
    assert resolve(csi_pb2.CapacityRange(), default_bytes=GIB, step_bytes=1024, minimum_bytes=1) == GIB


def test_defaults_are_rounded_and_never_below_the_minimum() -> None:
    assert size(default=GIB + 1) == GIB + 4 * MIB
    assert size(default=1, minimum=3 * GIB) == 3 * GIB


def test_a_minimum_that_is_no_multiple_is_rounded_up() -> None:
    assert size(1, minimum=GIB + 1) == GIB + 4 * MIB


def test_the_text_says_which_size_would_do() -> None:
    with pytest.raises(OutOfRange, match=r"multiples of 4194304 bytes and at least 1073741824.*would be 1073741824"):
        size(1, GIB - 1)
