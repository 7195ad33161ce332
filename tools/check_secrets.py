"""Finds secrets on their way into a log line or an error text, before they run.

The redaction filter of `appkit.logs` is the last line of defence and knows only secrets that were registered. This is
the first: a secret may be unwrapped in few modules, and nothing named like one may stand in a log call, a `print`
or the text of a raised error. It reads the code, it does not follow values through variables of innocent names. Names
in capitals are constants: names of keys, not what is kept under them.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("libs", "services")
GENERATED = "libs/csikit/pb/"
# Who may unwrap a SecretStr: the mechanism that reads and registers secrets, and the doors that send them.
MAY_UNWRAP = frozenset({"libs/appkit/settings.py", "libs/pvekit/auth.py", "libs/pvekit/header_text.py"})
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
SECRET_NAME = re.compile(r"(^|_)(secret|secrets|password|passphrase|passwd|api_key|private_key|ticket)(_value)?$")
# Names that end like a secret but say where one is or what it is called.
HARMLESS_CALLS = frozenset({"mask", "redact", "bool", "len", "type", "set", "sorted"})


def source_files() -> Iterator[Path]:
    """Every shipped module that people write."""
    for top in SHIPPED:
        for path in sorted((ROOT / top).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(GENERATED):
                yield path


def called_name(call: ast.Call) -> str:
    """Last part of what is called: `info` of `log.info(...)`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def secrets_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what) of every value in the expression that is a secret by its name or by being unwrapped."""
    match node:
        case ast.Call() if called_name(node) == "get_secret_value":
            yield node.lineno, "get_secret_value()"
            return
        case ast.Call() if called_name(node) in HARMLESS_CALLS:
            return
        case ast.Attribute(attr=name) | ast.Name(id=name) if SECRET_NAME.search(name):
            yield node.lineno, name
            return
        case ast.Subscript(slice=ast.Constant(value=str(name))) if SECRET_NAME.search(name):
            yield node.lineno, f"[{name!r}]"
            return
    for child in ast.iter_child_nodes(node):
        yield from secrets_in(child)


def problems_of(path: Path) -> Iterator[str]:
    """Findings in one module, each `file:line: what to do`."""
    where = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=where)):
        match node:
            case ast.Call(func=ast.Attribute(attr=method)) if method in LOG_METHODS:
                for line, what in secrets_in_arguments(node):
                    yield f"{where}:{line}: {what} in a log call; log that there is one, or mask() it"
            case ast.Call(func=ast.Name(id="print")):
                for line, what in secrets_in_arguments(node):
                    yield f"{where}:{line}: {what} is printed"
            case ast.Raise(exc=ast.Call() as made):
                for line, what in secrets_in_arguments(made):
                    yield f"{where}:{line}: {what} in an error's text"
            case ast.Call() if called_name(node) == "get_secret_value" and where not in MAY_UNWRAP:
                yield f"{where}:{node.lineno}: a secret is unwrapped here; only {', '.join(sorted(MAY_UNWRAP))} may"


def secrets_in_arguments(call: ast.Call) -> Iterator[tuple[int, str]]:
    """The secrets among a call's arguments."""
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        yield from secrets_in(argument)


def main() -> int:
    """Prints findings; 1 when there is one."""
    findings = [problem for path in source_files() for problem in problems_of(path)]
    for finding in findings:
        print(finding)
    print(
        f"Secrets: {len(findings)} found on the way into a log or an error."
        if findings
        else "Secrets: none on the way out."
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
