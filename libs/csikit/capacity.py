"""From a CapacityRange to the number of bytes to allocate. Pure."""

from typing import Protocol

from appkit.errors import InvalidRequest, OutOfRange

_INT64_MAX = 2**63 - 1


class CapacityRange(Protocol):
    """The protocol's message, or any value of the same two fields; zero means "not set"."""

    @property
    def required_bytes(self) -> int:
        """At least this much."""

    @property
    def limit_bytes(self) -> int:
        """At most this much."""


def resolve(capacity_range: CapacityRange | None, *, default_bytes: int, step_bytes: int, minimum_bytes: int) -> int:
    """The smallest size that meets the range: a multiple of `step_bytes`, at least `minimum_bytes`.

    Zero means "not set", as in the protocol; with neither bound set the answer is `default_bytes`, with only a limit it
    is the default or the largest size that still fits. Raises InvalidRequest for a range that contradicts itself and
    OutOfRange for one that no allowed size meets.
    """
    required = capacity_range.required_bytes if capacity_range else 0
    limit = capacity_range.limit_bytes if capacity_range else 0
    if required < 0 or limit < 0:
        raise InvalidRequest(f"capacity range is negative: required_bytes={required} limit_bytes={limit}")
    if limit and required > limit:
        raise InvalidRequest(f"capacity range contradicts itself: required_bytes={required} > limit_bytes={limit}")
    smallest = _round_up(max(required, minimum_bytes, 1), step_bytes)
    if smallest > _INT64_MAX:
        raise OutOfRange(f"required_bytes={required} is more than any volume can have")
    if limit and smallest > limit:
        raise OutOfRange(
            f"no size fits required_bytes={required} limit_bytes={limit}: sizes are multiples of {step_bytes} bytes and"
            f" at least {minimum_bytes}, so the smallest would be {smallest}"
        )
    if required:
        return smallest
    wanted = max(_round_up(default_bytes, step_bytes), smallest)
    return min(wanted, limit // step_bytes * step_bytes) if limit else wanted


def _round_up(size_bytes: int, step_bytes: int) -> int:
    return -(-size_bytes // step_bytes) * step_bytes
