"""How the simulated API says no: one exception that carries status, message and per-parameter reasons.

Must not know any rule of Proxmox VE; the handlers raise, `answers` turns it into bytes.
"""

from collections.abc import Mapping


class ApiError(Exception):
    """A request, or a task, that fails.

    `message` is the text as Proxmox VE prints it, without the trailing newline of a Perl `die`. `newline` False is for
    the few texts that come without one, `bare` True for answers without any body (401, 595, 596).
    """

    def __init__(
        self,
        status: int,
        message: str,
        errors: Mapping[str, str] | None = None,
        *,
        newline: bool = True,
        bare: bool = False,
        plain: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = dict(errors or {})
        self.newline = newline
        self.bare = bare
        self.plain = plain

    @property
    def task_text(self) -> str:
        """The text as a task's exit status shows it: on one line, with the status code for anything but a `die`."""
        if self.status == 500 and not self.errors:
            return self.message
        details = "".join(f" {name}: {why.strip()}" for name, why in self.errors.items())
        return f"{self.status} {self.message}{details}"


class Cut(Exception):
    """The connection is to be dropped without an answer (a fault rule asked for it)."""


def die(message: str) -> ApiError:
    """The usual domain error: status 500 and a text."""
    return ApiError(500, message)


def param_error(**errors: str) -> ApiError:
    """400 with one reason per parameter (`_` in a keyword stands for `-`)."""
    return param_errors({name.replace("_", "-"): why for name, why in errors.items()})


def param_errors(errors: Mapping[str, str]) -> ApiError:
    """400 "Parameter verification failed." with these reasons."""
    return ApiError(400, "Parameter verification failed.", errors)


def denied(path: str = "", *privileges: str) -> ApiError:
    """403 that names path and privileges, or the bare text without them."""
    if not path:
        return ApiError(403, "Permission check failed")
    return ApiError(403, f"Permission check failed ({path}, {'|'.join(privileges)})")
