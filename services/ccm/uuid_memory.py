"""Which SMBIOS UUID a VM was seen to have, so that a Node without a VM does not cost the same reads again at each try.

Only ever used to pass over a VM, never to choose one: what is chosen is read afresh. Must do no I/O.
"""

from dataclasses import dataclass

from ccm.matching import Machine

FORGET_S = 600.0


@dataclass(frozen=True, slots=True)
class _Seen:
    uuid: str
    name: str | None
    uptime_s: int
    at_s: float


class UuidMemory:
    """UUIDs by (region, vmid), each good for one boot of the guest: a running guest's UUID cannot change.

    A VM that is not running is not remembered, nor one under another name or with a shorter uptime: its id may have
    been given to another machine since.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], _Seen] = {}

    def note(self, machine: Machine, uuid: str, now_s: float) -> None:
        """Remember what was read of `machine`; `now_s` is monotonic time."""
        if machine.running and machine.entry.uptime_s:
            key = (machine.region, machine.entry.vmid)
            self._seen[key] = _Seen(uuid, machine.entry.name, machine.entry.uptime_s, now_s)

    def recall(self, machine: Machine, now_s: float) -> str | None:
        """The UUID ("" for a VM that has none), or None when it must be read."""
        key = (machine.region, machine.entry.vmid)
        seen = self._seen.get(key)
        if seen is None:
            return None
        same_boot = machine.running and (machine.entry.uptime_s or 0) >= seen.uptime_s
        if same_boot and machine.entry.name == seen.name and now_s - seen.at_s < FORGET_S:
            return seen.uuid
        del self._seen[key]
        return None
