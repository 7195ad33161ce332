"""Why a request is made: for a caller who waits, in the background, or to follow a task.

The client writes it at the end of User-Agent, so that budgets can be asserted apart on the server's side and an
operator can tell the two kinds in Proxmox VE's access log. A context variable, so that it follows tasks and needs no
parameter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

Purpose: TypeAlias = Literal["foreground", "background", "poll"]

_current: ContextVar[Purpose] = ContextVar("pvekit_purpose", default="foreground")


@contextmanager
def purpose(kind: Purpose) -> Iterator[None]:
    """All requests made inside are of this kind. Nests; the inner one wins."""
    token = _current.set(kind)
    try:
        yield
    finally:
        _current.reset(token)


def current_purpose() -> Purpose:
    """The kind of the requests made here."""
    return _current.get()
