"""Faults of one program's connections, in order; pure.

Which request is hit is decided when the fault is drawn: the n-th from then on that fits. Must not know what a request
means.
"""

import re
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["delay", "cut_before", "cut_after", "answer_before", "answer_after", "task_before", "task_after"]


@dataclass
class Fault:
    """What happens to the `nth` request from now on whose `METHOD /path` matches `pattern`.

    `answer_*`: `status` and `text` are answered, without or with the effect. `task_*`: the task that it starts ends
    with `text`, before or after its effect.
    """

    kind: FaultKind
    pattern: str
    nth: int = 1
    status: int = 500
    text: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        extra = {"delay": f" {self.seconds:.2f}s"}.get(self.kind, "")
        said = (
            f" {self.status} {self.text!r}" if self.kind.startswith("answer") else f" {self.text!r}" * bool(self.text)
        )
        return f"{self.kind}{extra}{said} on #{self.nth} {self.pattern}"


class FaultPlan:
    """The faults drawn and not yet met."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self._faults.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets; each request counts for all that fit it, and meets one at most."""
        if not self._faults:
            return None
        met: Fault | None = None
        line = f"{method} {path}"
        for fault in self._faults:
            if re.search(fault.pattern, line) is None:
                continue
            fault.nth -= 1
            if fault.nth <= 0 and met is None:
                met = fault
        if met is not None:
            self._faults.remove(met)
        return met
