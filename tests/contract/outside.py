"""What happened to the recorded installations outside the API, between two recorded requests.

A small script: before the recording of that number, the world is edited. Each edit is shown by the recordings' own notes
or by the first answer after it. Must hold nothing that a request could have done, and no answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.contract.naming import Naming
from tests.pvesim.world import World


@dataclass(frozen=True)
class Scene:
    """Where an edit acts."""

    world: World
    naming: Naming


Edit = Callable[[Scene], None]

SCRIPT: Mapping[int, tuple[Edit, ...]] = {}


def apply(number: int, scene: Scene) -> None:
    """Do what happened before this recording."""
    for edit in SCRIPT.get(number, ()):
        edit(scene)
