"""How long things take. Must hold durations only; the rules that wait live where the thing happens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Durations in seconds. All zero is the profile "instant". Limits that are rules (10 s locks) are not here."""

    read_s: float = 0.0
    alloc_s: float = 0.0
    free_s: float = 0.0
    config_write_s: float = 0.0
    plug_s: float = 0.0
    plug_controller_s: float = 0.0
    unplug_poll_s: float = 0.0
    resize_s: float = 0.0
    task_start_s: float = 0.0
    power_s: float = 0.0
    copy_s_per_gib: float = 0.0
    # qemu-img's look at one image of a directory storage, when names are searched or images listed.
    image_info_s: float = 0.0
    auth_failure_s: float = 0.0
    broadcast_s: float = 0.0
    ha_request_s: float = 0.0


INSTANT = Profile()
# Medians of Proxmox VE 9.2, recorded.
AS_MEASURED = Profile(
    read_s=0.01,
    alloc_s=0.035,
    free_s=0.035,
    config_write_s=0.03,
    plug_s=0.07,
    plug_controller_s=0.04,
    unplug_poll_s=1.0,
    resize_s=0.1,
    task_start_s=0.02,
    power_s=1.0,
    copy_s_per_gib=1.0,
    image_info_s=0.02,
    auth_failure_s=3.0,
    broadcast_s=10.0,
    ha_request_s=10.0,
)
PROFILES = {"instant": INSTANT, "as measured": AS_MEASURED}
