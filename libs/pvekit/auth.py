"""The API token, from the settings or from files that may be rotated while the process runs."""

from pathlib import Path

from appkit.errors import Unavailable
from appkit.logs import register_secret
from pvekit.header_text import is_header_text
from pvekit.settings import ClusterSettings

_Stamp = tuple[int, int, int]


class ApiToken:
    """Makes the Authorization header. Must not put the secret anywhere else: no log line, no error, no repr."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._id = _Part(settings.token_id or settings.token_id_file or "")
        secret = settings.token_secret.get_secret_value() if settings.token_secret is not None else None
        self._secret = _Part(secret or settings.token_secret_file or "", secret=True)

    def header(self) -> str:
        """The header's value; a token file is read again when it has changed. Unavailable when it cannot be read."""
        return f"PVEAPIToken={self._id.value()}={self._secret.value()}"

    def reread(self) -> bool:
        """Read the token files again, whatever their time stamps say; whether that gave another token."""
        changed = [part.reread() for part in (self._id, self._secret)]
        return any(changed)


class _Part:
    """An inline text or the trimmed content of a file."""

    def __init__(self, source: str | Path, *, secret: bool = False) -> None:
        self._file = source if isinstance(source, Path) else None
        self._value = source if isinstance(source, str) else ""
        self._stamp: _Stamp | None = None
        self._is_secret = secret

    def value(self) -> str:
        if self._file is not None:
            stamp = _stamp(self._file)
            if stamp != self._stamp:
                self._read(self._file)
                self._stamp = stamp
        return self._value

    def reread(self) -> bool:
        if self._file is None:
            return False
        before = self._value
        self._read(self._file)
        return self._value != before

    def _read(self, file: Path) -> None:
        try:
            value = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from error
        if self._is_secret:
            register_secret(value)
        if not value:
            raise Unavailable(f"token file {file} is empty")
        if not is_header_text(value):
            raise Unavailable(f"token file {file} must hold one word of printable ASCII characters and nothing else")
        self._value = value


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError as error:
        raise _unreadable(file, error) from error
    return found.st_mtime_ns, found.st_ino, found.st_size


def _unreadable(file: Path, error: OSError | UnicodeDecodeError) -> Unavailable:
    why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
    return Unavailable(f"token file {file} cannot be read: {why}")
