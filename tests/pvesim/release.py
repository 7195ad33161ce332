"""What differs between the simulated releases: 8.4, 9.0, 9.1 and 9.2.

9.2 is the recorded one; what is said here of the others is from the release notes and sources, not recorded (README.md
lists it). Must not answer a request; handlers ask `Release`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """One release of Proxmox VE and what it can do."""

    name: str
    version: str
    repoid: str
    # HA groups (8) became rules (9).
    ha_rules: bool = True
    # VM.Monitor (8) became VM.GuestAgent.* (9).
    guest_agent_privileges: bool = True
    # LVM and directories may keep snapshots as a chain of volumes.
    volume_chains: bool = True
    # memhost and pressure figures of VMs.
    pressure: bool = True
    # `armed-state` in the HA status.
    armed_state: bool = True


RELEASES = {
    release.name: release
    for release in (
        Release(
            "8.4", "8.4.14", "b502d23c55afcba1", ha_rules=False, guest_agent_privileges=False, volume_chains=False,
            pressure=False, armed_state=False,
        ),
        Release("9.0", "9.0.11", "3bf5476b8a4699e2", armed_state=False),
        Release("9.1", "9.1.6", "71482d1833ded40a", armed_state=False),
        Release("9.2", "9.2.11", "14a22df35955d97d"),
    )
}  # fmt: skip
LATEST = RELEASES["9.2"]
_MACHINES = {"8.4": ("9.2", "9.0", "8.2"), "9.0": ("10.0", "9.2"), "9.1": ("10.1", "10.0"), "9.2": ("10.1", "10.0")}


def machine_types(release: Release) -> list[tuple[str, str]]:
    """(type, version) of the machines that the release's QEMU offers."""
    return [(kind, version) for kind in ("i440fx", "q35") for version in _MACHINES[release.name]]
