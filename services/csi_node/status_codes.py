"""Rows that this service adds to the table from errors to gRPC codes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from grpc import StatusCode

ROWS: Final[Mapping[type[BaseException], StatusCode]] = MappingProxyType(
    {
        # An errno of the host (no space for a directory, a path that is a file) is the machine's fault, not a bug, and
        # after it nobody knows how much was done: kubelet must not conclude that nothing was.
        OSError: StatusCode.UNAVAILABLE,
    }
)
