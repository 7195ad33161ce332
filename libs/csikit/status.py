"""The one table from errors to gRPC codes.

Domain code raises what appkit.errors means; nothing below a servicer knows a code. A service adds rows for errors that
have no place in the tree (its `status_codes` module). An error is looked up along its class tree, so a subclass that
carries a foreign cause needs no row of its own. INTERNAL means a bug of ours and is never a considered answer.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from grpc import StatusCode

from appkit import errors

DEFAULT_ROWS: Final[Mapping[type[BaseException], StatusCode]] = MappingProxyType(
    {
        errors.DriverError: StatusCode.INTERNAL,
        errors.InvalidRequest: StatusCode.INVALID_ARGUMENT,
        errors.OutOfRange: StatusCode.OUT_OF_RANGE,
        errors.NotFound: StatusCode.NOT_FOUND,
        errors.AlreadyExists: StatusCode.ALREADY_EXISTS,
        errors.FailedPrecondition: StatusCode.FAILED_PRECONDITION,
        errors.ResourceExhausted: StatusCode.RESOURCE_EXHAUSTED,
        errors.Pending: StatusCode.ABORTED,
        errors.Unavailable: StatusCode.UNAVAILABLE,
        errors.Denied: StatusCode.PERMISSION_DENIED,
        errors.Unsupported: StatusCode.UNIMPLEMENTED,
        errors.Corrupt: StatusCode.DATA_LOSS,
        # What a generated servicer method raises when a service does not override it.
        NotImplementedError: StatusCode.UNIMPLEMENTED,
    }
)


class StatusTable:
    """`rows` on top of the default ones; a row for the same class replaces the default."""

    def __init__(self, rows: Mapping[type[BaseException], StatusCode] = MappingProxyType({})) -> None:
        self._rows = {**DEFAULT_ROWS, **rows}

    def find_code(self, error: BaseException) -> StatusCode | None:
        """Code of the nearest class in the error's tree that has a row; None for an error nobody planned for."""
        for kind in type(error).__mro__:
            if code := self._rows.get(kind):
                return code
        return None
