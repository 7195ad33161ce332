"""skeleton"""

from typing import Any

from pvekit.errors import Call, PveError
from pvekit.upid import Upid


def of_answer(status: int, reason: str, body: Any, *, call: Call) -> PveError:
    """The error that an answer with status >= 400 stands for."""
    raise NotImplementedError


def of_task(text: str, *, upid: Upid, call: Call) -> PveError:
    """The error that a task's exit text stands for."""
    raise NotImplementedError
