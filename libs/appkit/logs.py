"""Log lines: JSON or text, one line per record, with bound fields, and without secrets.

Must not decide what is logged (the layer that decides an outcome writes its one line) and must not be worked around
by handlers of one's own: masking happens here, in the last step before the stream, over the whole record with message,
arguments, extra fields, bound fields and traceback.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO

from appkit.redaction import Redactor

Format = Literal["json", "text"]

_HANDLER_NAME = "appkit"

# Logging is the process's own, and so is what it must not show: the one state at module level, by intent.
_redactor = Redactor()
_bound: ContextVar[Mapping[str, Any]] = ContextVar("appkit.logs.bound", default=MappingProxyType({}))

_RECORD_ATTRIBUTES = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_OWN_KEYS = frozenset({"time", "level", "logger", "message", "exception", "stack"})


def get_logger(name: str) -> logging.Logger:
    """The standard library's logger `name`; fields go into `extra={...}`."""
    return logging.getLogger(name)


def register_secret(value: str) -> None:
    """Never show `value` in a log line of this process again. Values under 4 characters cannot be masked."""
    _redactor.register(value)


def mask(text: str) -> str:
    """`text` as a log line would show it; for text that leaves the process on other ways (events, standard error)."""
    return _redactor.mask(text)


@contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Add `fields` to every line written inside the body, also by tasks started in it."""
    token = _bound.set(MappingProxyType({**_bound.get(), **fields}))
    try:
        yield
    finally:
        _bound.reset(token)


def configure(format: Format = "text", level: str | int = "INFO", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send every logger of the process to `stream` (default: standard error). A second call replaces the first.

    `level` is a name in either case or a number. Raises ValueError for an unknown level or format.
    """
    if format not in ("json", "text"):
        raise ValueError(f'log format must be "json" or "text", not {format!r}')
    root = logging.getLogger()
    handler = _Handler(stream or sys.stderr)
    handler.set_name(_HANDLER_NAME)
    handler.setFormatter(_Formatter(json_lines=format == "json"))
    root.setLevel(level.upper() if isinstance(level, str) else level)
    for old in [each for each in root.handlers if each.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    # It tells of every request at INFO; here an outcome has one line, by the layer that decides it.
    logging.getLogger("httpx").setLevel(logging.NOTSET if root.level <= logging.DEBUG else logging.WARNING)


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the base class's name
        """Say that a log call was wrong; the base class would print its arguments, secrets included, unmasked."""
        error = sys.exc_info()[1]
        line = f"log call failed: {record.name} {record.pathname}:{record.lineno} {type(error).__name__}\n"
        # The stream itself may be what failed (closed pipe, full disk): nothing is left to say it on, and the work that
        # was to be logged must not fail for it.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(line)


class _Formatter(logging.Formatter):
    def __init__(self, *, json_lines: bool) -> None:
        super().__init__()
        self._json_lines = json_lines

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {
            "time": moment,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = {key: value for key, value in record.__dict__.items() if key not in _RECORD_ATTRIBUTES}
        fields = {f"{key}_" if key in _OWN_KEYS else key: value for key, value in {**_bound.get(), **extra}.items()}
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = record.stack_info
        # Masked before the encoder escapes anything, and once more after it: a secret that an encoder glued together
        # from two values is still a secret.
        masked = _redactor.mask_value({**head, **fields})
        line = json.dumps(masked, ensure_ascii=False) if self._json_lines else _text_line(masked)
        # What came from a path of bytes that are no UTF-8 is no reason to lose the line.
        return _redactor.mask(line).encode(errors="backslashreplace").decode()


def _text_line(values: dict[str, Any]) -> str:
    head = f"{values.pop('time')} {values.pop('level')} {values.pop('logger')} {_one_line(values.pop('message'))}"
    return " ".join([head, *(f"{key}={_text_value(value)}" for key, value in values.items())])


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"')


def _text_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and (not text or not text.isprintable() or any(each in text for each in ' ="')):
        return json.dumps(text, ensure_ascii=False)
    return text
