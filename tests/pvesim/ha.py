"""High availability, core: which VMs are managed and what was requested. Fencing and fail-over come later.

Must not move a VM by itself.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class HaState:
    """resources.cfg and rules.cfg."""

    # sid ("vm:100") -> {"state", "max_restart", ...}
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)

    def is_managed(self, vmid: int) -> bool:
        """Whether HA takes care of this VM."""
        return f"vm:{vmid}" in self.resources
