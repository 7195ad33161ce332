"""Proxmox VE's loose JSON made strict: the same field arrives as 1, "1", true or "" depending on who wrote it.

Pure. `as_*` functions never raise on odd input; they answer the default, since one strange field in a list of a
thousand entries must not hide the other 999 (recorded on 9.2: memory "512", cores 1, agent "1", ctime as a string).
"""

from typing import Any, TypeAlias

Scalar: TypeAlias = str | int | float | bool
"""What may be sent as a request parameter; booleans go out as 1 and 0, the only spelling Proxmox VE accepts."""

_TRUE = frozenset({"1", "on", "yes", "true"})
_FALSE = frozenset({"0", "off", "no", "false", ""})


def as_int(value: Any, default: int | None = None) -> int | None:
    """Integer of 5, "5", "5.0", 5.0 or True; anything else is the default."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    try:
        return (
            int(float(value)) if not isinstance(value, str) or not value.strip().lstrip("-").isdigit() else int(value)
        )
    except (TypeError, ValueError, OverflowError):
        return default


def as_float(value: Any, default: float | None = None) -> float | None:
    """Float of a number or its text; anything else is the default."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


def as_bool(value: Any, *, default: bool = False) -> bool:
    """Boolean of 1/0, "1"/"0", true/false, yes/no, on/off; None and unknown words are the default."""
    if isinstance(value, bool | int | float):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    return default


def as_str(value: Any) -> str | None:
    """Text of a string or number; booleans become "1"/"0"; None and containers are None."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    return None


def as_words(value: Any, separators: str = ",; ") -> tuple[str, ...]:
    """Words of a list, or of a text separated by any of `separators`; sorted, since Perl's order is random."""
    if isinstance(value, list | tuple):
        return tuple(sorted(str(word) for word in value))
    if not isinstance(value, str):
        return ()
    for separator in separators[1:]:
        value = value.replace(separator, separators[0])
    return tuple(sorted(word.strip() for word in value.split(separators[0]) if word.strip()))


def parameter(value: Scalar) -> str:
    """A request parameter as Proxmox VE takes it: booleans as 1 or 0 ("yes", "on", "true" are refused, recorded on
    9.2).
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
