"""The answers to "which VM is this Node?". Values only.

Not found is an answer with a reason, not an error, and it is no proof that the VM is gone: Proxmox VE leaves out of
its lists what a token may not see. Whoever wants to act on absence needs `pvekit.presence.Absent`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ccm.facts import InstanceFacts


@dataclass(frozen=True, slots=True)
class Found:
    """Exactly one VM, its UUID compared."""

    facts: InstanceFacts


@dataclass(frozen=True, slots=True)
class NoInstance:
    """No VM fits; `reason` says what was compared with what, and which right is missing if one is."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one VM fits; choosing would tie an identity that can never be changed to chance."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Proxmox VE, or the host of the VM, did not answer what is needed to tell."""

    reason: str


Outcome: TypeAlias = Found | NoInstance | Ambiguous | Unreachable
