"""High availability as configured and as it stands: resources, rules, groups, and the manager's view of each service.

Must not act; `hamanager.py` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.pvesim.formats import split_list


@dataclass
class Service:
    """What the manager thinks of one resource: started, stopped, migrate, fence, recovery, error, ..."""

    crm_state: str
    # Shown while the host's own manager has not done it yet ("starting").
    state: str = ""
    failed_starts: int = 0
    relocations: int = 0

    @property
    def shown(self) -> str:
        """As the HA status shows it."""
        return self.state or self.crm_state


@dataclass
class HaState:
    """resources.cfg, rules.cfg (release 9), groups.cfg (release 8) and the manager's status."""

    # sid ("vm:100") -> {"state", "max_restart", ...}
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    # A manager was elected once; its status stays when the last resource has gone.
    ever_active: bool = False

    def is_managed(self, vmid: int) -> bool:
        """Whether HA takes care of this VM."""
        return f"vm:{vmid}" in self.resources

    def state_of(self, sid: str) -> str:
        """The manager's state of a resource; a new one is queued until the manager has looked."""
        service = self.services.get(sid)
        return service.crm_state if service is not None else "queued"

    def priorities(self, sid: str) -> tuple[dict[str, int], bool]:
        """({host: priority}, whether only these) from a node-affinity rule or a group; ({}, False) without one."""
        group = self.groups.get(str(self.resources.get(sid, {}).get("group", "")))
        if group is not None:
            return parse_priorities(str(group["nodes"])), str(group.get("restricted", "0")) == "1"
        for rule in self._rules("node-affinity", sid):
            return parse_priorities(str(rule["nodes"])), str(rule.get("strict", "0")) == "1"
        return {}, False

    def fails_back(self, sid: str) -> bool:
        """Whether a resource returns to a host that it prefers."""
        group = self.groups.get(str(self.resources.get(sid, {}).get("group", "")))
        if group is not None:
            return str(group.get("nofailback", "0")) != "1"
        return str(self.resources.get(sid, {}).get("failback", "1")) != "0"

    def mates(self, sid: str, affinity: str) -> set[str]:
        """Resources that a resource-affinity rule keeps together with (positive) or apart from (negative) this one."""
        found: set[str] = set()
        for rule in self._rules("resource-affinity", sid):
            if rule.get("affinity") == affinity:
                found |= set(split_list(str(rule["resources"]))) - {sid}
        return found

    def _rules(self, kind: str, sid: str) -> list[Mapping[str, Any]]:
        return [
            rule
            for rule in self.rules.values()
            if rule.get("type") == kind
            and sid in split_list(str(rule.get("resources", "")))
            and str(rule.get("disable", "0")) != "1"
        ]


def parse_priorities(text: str) -> dict[str, int]:
    """`pve1:2,pve2` -> {"pve1": 2, "pve2": 0}."""
    pairs = [part.partition(":") for part in split_list(text)]
    return {name: int(priority or 0) for name, _, priority in pairs}
