"""What an episode has to remember beside the world's state: who did what when, and what must hold because of it.

Pure data with small questions. Must not look at the world; `invariants` compares both.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.pvesim.state import Volume

VolumeKey = tuple[str, str, str]
"""(storage, host or "" for shared, name), as the world files its volumes."""


@dataclass(eq=False)
class Attachment:
    """Kubernetes' VolumeAttachment of a claim to a VM.

    From its creation until an unpublish that succeeded, the driver may have the volume in that VM; nowhere else.
    `live`: a publish succeeded and nobody disturbed it since, so the guest must have the disk.
    """

    vmid: int
    wanted: bool = True
    published: bool = False
    live: bool = False
    begun: bool = False
    bare_id: bool = False
    next_at: float = 0.0
    tries: int = 0


@dataclass(eq=False)
class Claim:
    """One PersistentVolumeClaim from its creation to its end. `volume` is the world's own object: its content."""

    slot: int
    name: str
    storage: str
    shared: bool
    zones: tuple[str, ...]
    """The topology asked for: one host as a rule, all for immediate binding, () for none."""
    size_bytes: int
    limit_bytes: int
    image_format: str
    fs_type: str
    phase: Literal["new", "bound", "gone"] = "new"
    wanted: bool = True
    begun: bool = False
    unclear: bool = False
    handle: str = ""
    key: VolumeKey = ("", "", "")
    volume: Volume | None = None
    context: dict[str, str] = field(default_factory=dict)
    held_bytes: int = 0
    grow_to_bytes: int = 0
    deleting: bool = False
    delete_unclear: bool = False
    attachments: dict[int, Attachment] = field(default_factory=dict)
    rights_missing: bool = False
    next_at: float = 0.0
    tries: int = 0
    grow_next_at: float = 0.0
    last_error: str = ""

    @property
    def volid(self) -> str:
        return f"{self.key[0]}:{self.key[2]}"


class BrokenInvariant(Exception):
    """Something is true that must never be; the text says what."""


@dataclass
class Ledger:
    """All of one episode."""

    trace: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    """Of every slot the current claim, and all former ones."""
    disturbed_at: dict[int, float] = field(default_factory=dict)
    """When somebody else last did something to a VM that may take a disk from its guest or config; inf: now."""
    by_hand: dict[tuple[int, VolumeKey], float] = field(default_factory=dict)
    """Volumes of ours that an admin attached to a VM, and when."""
    dark_at: dict[str, float] = field(default_factory=dict)
    """When a host last was out of reach; inf: it is."""
    foreign: dict[tuple[int, str], str] = field(default_factory=dict)
    """Disks of others: (VM, key) to volume id. Nobody but their owner may touch them."""
    finished_by_hand: set[tuple[int, str]] = field(default_factory=set)
    """(VM, key) of drives whose controller a guest still had to let go of when an admin removed the rest."""
    snapshot_at: dict[tuple[int, str], float] = field(default_factory=dict)
    rights_missing: bool = False
    lives: dict[int, int] = field(default_factory=dict)
    nodeless: set[int] = field(default_factory=set)
    """VMs whose Node somebody deleted, or whose kubelet did not register yet."""
    calls: dict[tuple[str, str], int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def break_off(self, text: str) -> None:
        """Note a broken invariant; the episode ends at its next step."""
        self.problems.append(text)

    def disturb(self, vmid: int, now: float) -> None:
        """Somebody else does something to this VM: nothing that was seen there before must still be so."""
        self.disturbed_at[vmid] = now
        for claim in self.claims:
            if (attachment := claim.attachments.get(vmid)) is not None:
                attachment.live = False

    def undisturbed_since(self, vmid: int, moment: float) -> bool:
        return self.disturbed_at.get(vmid, -1.0) < moment

    def count(self, verb: str, code: str) -> None:
        self.calls[verb, code] = self.calls.get((verb, code), 0) + 1


def at(now: float, *words: Any) -> str:
    """A line of the trace."""
    return f"{now:10.3f}  " + " ".join(str(word) for word in words)
