"""Three answers to "is it there?": present, proved absent, or not known. Pure.

Proxmox VE filters lists by permission and still answers 200, and a dark host answers nothing; neither is absence. Only
`Absent` may delete, untaint or report success for "gone".
"""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Present(Generic[T]):
    """It was seen; `value` is what was seen."""

    value: T


@dataclass(frozen=True, slots=True)
class Absent:
    """It was proved not to exist; `proof` says how, for the log line of whoever acts on it."""

    proof: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be known; `reason` says why. Nothing may be deleted, and no success reported, on this answer."""

    reason: str


Presence: TypeAlias = Present[T] | Absent | Unknown
