"""Faults by rule: the n-th request like this gets that. Must not know what a request means to Proxmox VE."""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ActionKind = Literal["answer", "delay", "cut_before", "cut_after", "task_fails"]


@dataclass(frozen=True)
class Action:
    """What happens: `answer` replaces the answer (the request has no effect unless `after`), `delay` waits first,
    `cut_*` drops the connection before or after the effect, `task_fails` ends the task this request starts with `text`
    (before its effect unless `after`)."""

    kind: ActionKind
    status: int = 500
    reason: str = ""
    body: str | None = None
    seconds: float = 0.0
    text: str = ""
    after: bool = False


@dataclass
class Rule:
    """Applies to requests `nth` .. `nth + times - 1` (1-based, counted among those that match); `times` 0 is for ever.

    `path` is a glob over the path below /api2/json without the query, or a regular expression if it begins with "re:".
    """

    action: Action
    method: str = "*"
    path: str = "*"
    nth: int = 1
    times: int = 1
    param: str = ""
    seen: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)

    def matches(self, method: str, path: str, params: Mapping[str, Any]) -> bool:
        """Whether the rule speaks of this request at all (not yet whether it is its turn)."""
        if self.method not in ("*", method):
            return False
        if self.param and self.param not in params:
            return False
        if self.path.startswith("re:"):
            return re.fullmatch(self.path[3:], path) is not None
        return fnmatch.fnmatchcase(path, self.path)

    def take(self) -> bool:
        """Count one matching request; True when the rule fires for it."""
        self.seen += 1
        if self.seen < self.nth or (self.times and self.fired >= self.times):
            return False
        self.fired += 1
        return True


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force and hand it back (its counters tell what it did)."""
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget all rules."""
        self.rules.clear()

    def actions_for(self, method: str, path: str, params: Mapping[str, Any]) -> list[Action]:
        """The actions that fire for this request, in the order the rules were added."""
        return [rule.action for rule in self.rules if rule.matches(method, path, params) and rule.take()]

    @staticmethod
    def parse(raw: Mapping[str, Any]) -> Rule:
        """A rule from plain data: {method, path, nth, times, param, action: {kind, ...}}; TypeError if unknown."""
        fields = dict(raw)
        return Rule(action=Action(**fields.pop("action")), **fields)


def answer(status: int, reason: str, body: str | None = None, *, after: bool = False) -> Action:
    """Answer this instead."""
    return Action("answer", status=status, reason=reason, body=body, after=after)


def delay(seconds: float) -> Action:
    """Wait before the request is looked at."""
    return Action("delay", seconds=seconds)


def cut_before() -> Action:
    """Drop the connection; nothing happened."""
    return Action("cut_before")


def cut_after() -> Action:
    """Do it, then drop the connection."""
    return Action("cut_after")


def task_fails(text: str, *, after: bool = False) -> Action:
    """Let the task that this request starts end with `text`."""
    return Action("task_fails", text=text, after=after)
