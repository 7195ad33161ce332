"""Faults by rule: what happens to the n-th request that looks like this. Rules are asked in the order of adding."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True)
class Action:
    """`answer` instead of doing it; `delay` before doing it; cut before or after doing it, without an answer."""

    kind: Literal["answer", "delay", "cut_before", "cut_after"]
    status: int = 0
    message: str = ""
    reason: str = ""
    seconds: float = 0


def answer(status: int, message: str = "as the rule says", reason: str = "") -> Action:
    return Action("answer", status=status, message=message, reason=reason)


def delay(seconds: float) -> Action:
    return Action("delay", seconds=seconds)


def cut_before() -> Action:
    return Action("cut_before")


def cut_after() -> Action:
    return Action("cut_after")


@dataclass
class Rule:
    """Hits requests of `verb` (get, list, watch, create, update, patch, delete, or *) whose path matches the glob.

    The first `nth - 1` of them pass, then `times` are hit (0: all from then on).
    """

    action: Action
    verb: str = "*"
    path: str = "*"
    nth: int = 1
    times: int = 1
    seen: int = field(default=0, compare=False)

    def hits(self, verb: str, path: str) -> bool:
        if self.verb not in ("*", verb) or not fnmatchcase(path, self.path):
            return False
        self.seen += 1
        return self.seen >= self.nth and (not self.times or self.seen < self.nth + self.times)


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        self._rules.clear()

    def action_for(self, verb: str, path: str) -> Action | None:
        """The action of the first rule that hits; every rule counts the request, whether or not it is the one."""
        hits = [rule.action for rule in self._rules if rule.hits(verb, path)]
        return hits[0] if hits else None
