import pytest

from appkit.errors import InvalidRequest, OutOfRange
from csi_controller.sizes import DEFAULT_BYTES, SizeRange, smallest_size
from csi_controller.storage_types import MIB, storage_type


@pytest.mark.parametrize(
    ("required", "limit", "step", "fs_type", "expected"),
    [
        (0, 0, MIB, "ext4", DEFAULT_BYTES),
        (0, 64 * MIB, MIB, "ext4", 64 * MIB),
        (100 * MIB, 0, 4 * MIB, "ext4", 100 * MIB),
        (100 * MIB + 1, 0, 4 * MIB, "ext4", 104 * MIB),
        (100 * MIB + 1, 0, MIB, "", 101 * MIB),
        (100 * MIB, 0, 4 * MIB, "xfs", 300 * MIB),
        (400 * MIB, 0, 4 * MIB, "xfs", 400 * MIB),
        (1, 0, MIB, "", MIB),
    ],
)
def test_rounds_only_as_far_as_needed(required: int, limit: int, step: int, fs_type: str, expected: int) -> None:
    assert smallest_size(SizeRange(required, limit), step_bytes=step, fs_type=fs_type) == expected


@pytest.mark.parametrize(
    ("required", "limit", "step", "fs_type"),
    [(100 * MIB, 200 * MIB, 4 * MIB, "xfs"), (5 * MIB, 6 * MIB, 4 * MIB, "")],
)
def test_a_limit_that_cannot_be_kept_is_out_of_range(required: int, limit: int, step: int, fs_type: str) -> None:
    with pytest.raises(OutOfRange):
        smallest_size(SizeRange(required, limit), step_bytes=step, fs_type=fs_type)


def test_a_range_against_itself_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        smallest_size(SizeRange(2 * MIB, MIB), step_bytes=MIB, fs_type="")


def test_holds() -> None:
    assert SizeRange(10, 20).holds(10)
    assert SizeRange(10, 20).holds(20)
    assert SizeRange(10).holds(1000)
    assert not SizeRange(10, 20).holds(9)
    assert not SizeRange(10, 20).holds(21)


def test_unknown_storage_types_are_block_types_that_must_be_measured() -> None:
    kind = storage_type("drbd")
    assert not kind.has_files
    assert not kind.exact
