"""What the demo shows: chapters, steps, tables, and the end. Must not decide anything.

On a terminal in colour; into a pipe as plain lines of at most 120 characters.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

# The first eight digits tell two volumes apart; all 32 would fill the line.
VOLUME_NAME = re.compile(r"(pvc-[0-9a-f]{8})-[0-9a-f-]{27}")


@dataclass
class Step:
    """One step as it is shown."""

    title: str
    calls: list[str] = field(default_factory=list)
    requests: str = ""
    changes: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


class Screen:
    """The one place that prints."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def chapter(self, title: str, text: str = "") -> None:
        """A heading, with a sentence of what is about to happen."""
        self._console.print()
        self._console.rule(Text(title, style="bold"), align="left")
        if text:
            self.say(text)

    def say(self, text: str, style: str = "") -> None:
        """One line or paragraph of prose."""
        self._console.print(Text(text, style=style))

    def step(self, step: Step, *, good: bool = True) -> None:
        """A finished step: its calls, what they cost, what changed."""
        mark = ("✓ ", "green") if good else ("✗ ", "bold red")
        self._console.print(Text.assemble(mark, (step.title, "bold")))
        for call in step.calls:
            self._line("gRPC", call, "cyan")
        if step.requests:
            self._line("Proxmox", step.requests, "magenta")
        for change in step.changes:
            self._line("VM config", change, "green" if ": + " in change else "red")
        for fact in step.facts:
            self._line("seen", fact, "")

    def command(self, line: str) -> None:
        """A line to copy: never wrapped, never styled."""
        self._console.print(Text(f"  {line}"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A small table."""
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def failure(self, text: str, log_name: str = "", log_tail: str = "") -> None:
        """What is off, with the end of the log of the process concerned."""
        self._console.print(Text.assemble(("✗ ", "bold red"), (text, "bold")))
        if log_tail:
            self._console.rule(Text(f"the end of {log_name}"), align="left", style="red")
            self._console.print(Text(log_tail))
            self._console.rule(style="red")

    def _line(self, label: str, text: str, style: str) -> None:
        text = VOLUME_NAME.sub(r"\1…", text)
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=11)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f"  {label}", style="dim"), Text(text, style=style))
        self._console.print(grid)
