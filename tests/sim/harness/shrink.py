"""Makes a failing list of operations short: leave out halves, then quarters, and so on, as long as it still fails.

Every attempt plays the episode anew with the same seed. Must not know what an operation is.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(items: Sequence[T], fails: Callable[[Sequence[T]], bool], *, attempts: int = 300) -> list[T]:
    """A short sub-list for which `fails` still holds; `items` itself must fail. At most so many attempts."""
    kept = list(items)
    size = max(1, len(kept) // 2)
    while attempts > 0:
        removed = False
        start = 0
        while start < len(kept) and attempts > 0:
            candidate = kept[:start] + kept[start + size :]
            attempts -= 1
            if candidate and fails(candidate):
                kept, removed = candidate, True
            else:
                start += size
        if not removed:
            if size == 1:
                break
            size = max(1, size // 2)
    return kept
