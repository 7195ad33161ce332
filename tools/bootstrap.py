"""Makes `.venv`, the one environment that every make target runs in.

It runs on the system's Python before anything is installed, so it uses the standard library alone. It must leave a
finished environment or say plainly why not: it may be interrupted and run again, and two may start at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "dev.txt"
PROJECT = ROOT / "pyproject.toml"
LOG = ROOT / "build" / "setup.log"

# The user's pip settings that say where packages come from and how to get there. Everything else of theirs (--user,
# --target, require-virtualenv, no-binary ...) is about other installs than this one and would break it.
CONNECTION_KEYS = (
    "index-url",
    "extra-index-url",
    "no-index",
    "find-links",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "cache-dir",
    "keyring-provider",
)
# pip's own words, and what to do about them.
ADVICE = {
    "DO NOT MATCH THE HASHES": """A package differs from the one pinned by hash; nothing was installed from it.
A mirror or a proxy may have altered it.""",
    "CERTIFICATE_VERIFY_FAILED|Could not find a suitable TLS CA": """The package index's certificate was not accepted.
On Debian or Ubuntu: apt-get install -y ca-certificates
Behind a proxy that re-signs TLS, name its CA: make PIP_CERT=/path/to/ca.crt ...""",
    "No space left on device": "The disk is full; the environment needs about 500 MB.",
    "NewConnectionError|name resolution|service not known|unreachable|TimeoutError|ProxyError|Connection refused": """\
The package index could not be reached; set-up needs the network once.
A proxy or a mirror is taken from your pip settings (PIP_PROXY, PIP_INDEX_URL, pip.conf).
Then run the same command again.""",
    "No matching distribution found": """The package index of your pip settings lacks a pinned package,
or has none for this kind of machine.""",
}


class SetupError(Exception):
    """Set-up cannot go on; the text is for the person at the terminal."""


def say(text: str) -> None:
    """Prints one line at once, also when the output is a pipe."""
    print(text, flush=True)


def digest(*parts: bytes) -> str:
    """Short fingerprint of what a stamp stands for."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Lets one set-up run at a time; the kernel drops the lock when its last holder dies.

    pip inherits the lock, so that a pip whose parent was killed is waited for too.
    """
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up of this folder is running; waiting for it to finish ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        yield


def connection_settings(python: Path) -> dict[str, str]:
    """The user's pip settings of `CONNECTION_KEYS`, as PIP_* variables."""
    listing = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    kept: dict[str, str] = {}
    for line in listing.splitlines():
        name, sep, value = line.partition("=")
        key = name.rpartition(".")[2]
        if sep and key in CONNECTION_KEYS and (name.startswith(("global.", "install.", ":env:"))):
            # pip prints Python literals; several values of one key are separated by newlines within them.
            kept["PIP_" + key.upper().replace("-", "_")] = value.strip().strip("'").replace("\\n", " ")
    return kept


def pip_environment(python: Path) -> dict[str, str]:
    """The environment of every pip run: the user's way to the index, none of their other pip or Python settings."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PIP_") and key not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    }
    kept.update(connection_settings(python))
    kept.update(PIP_CONFIG_FILE=os.devnull, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PYTHONNOUSERSITE="1")
    return kept


def install(python: Path, label: str, *arguments: str) -> None:
    """Runs pip install with its output in `LOG` and a line of progress for the person waiting.

    Raises:
        SetupError: pip failed; the text gives its last lines and what to do.
    """
    LOG.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    count = 0
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"\n--- pip install {' '.join(arguments)}\n")
        process = subprocess.Popen(
            [python, "-m", "pip", "install", *arguments],
            env=pip_environment(python),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=ROOT,
            close_fds=False,  # keeps the lock
        )
        output: list[str] = []
        try:
            for line in process.stdout or ():
                log.write(line)
                output.append(line)
                if line.startswith("Collecting "):
                    count += 1
                    show(f"{label}: {count} packages found")
                elif line.startswith("Installing collected"):
                    show(f"{label}: writing {count} packages")
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if sys.stdout.isatty():
        print("\r\033[K", end="")
    if code:
        raise SetupError(explain(label, "".join(output)))
    say(f"{label}: done in {time.monotonic() - started:.0f} s")


def show(text: str) -> None:
    """Progress that overwrites itself; only on a terminal, a log file needs none."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def explain(label: str, output: str) -> str:
    """What went wrong in words; the first advice whose sign is in pip's output."""
    tail = "\n".join("    " + line for line in output.splitlines()[-12:])
    for signs, advice in ADVICE.items():
        if re.search(signs, output):
            return f"{label} failed. {advice}\n{tail}\n  Everything pip said: {LOG}"
    return f"{label} failed.\n{tail}\n  Everything pip said: {LOG}"


class Environment:
    """One virtual environment and the stamps in it that say what was finished.

    `unfinished` exists while packages are being changed: found at the start, it tells that an earlier run was cut off.
    """

    def __init__(self, venv: Path) -> None:
        self.venv = venv
        self.python = venv / "bin" / "python"
        self.lock = venv.with_name(venv.name + ".lock")
        self.unfinished = venv / "unfinished"
        self.wanted = {
            # The scripts inside carry absolute paths: a moved tree needs a new environment.
            "place": str(ROOT),
            "pins": digest(PINS.read_bytes()),
            "project": digest(PROJECT.read_bytes(), str(ROOT).encode()),
        }

    def current(self, stamp: str) -> bool:
        """Whether the step of `stamp` was finished for exactly these inputs."""
        path = self.venv / stamp
        return path.is_file() and path.read_text(encoding="utf-8") == self.wanted[stamp]

    def write(self, stamp: str) -> None:
        """Records the step as finished."""
        (self.venv / stamp).write_text(self.wanted[stamp], encoding="utf-8")

    def works(self) -> bool:
        """Whether the interpreter still starts (the system's may have gone) and is of the version asked for."""
        probe = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
        try:
            answer = subprocess.run([self.python, "-c", probe], capture_output=True, text=True)
        except OSError:
            return False
        ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return answer.returncode == 0 and (not os.environ.get("PYTHON") or answer.stdout.strip() == ours)

    def finished(self) -> bool:
        """Whether there is nothing to do: the quick answer of every run but the first."""
        return not self.unfinished.exists() and all(map(self.current, self.wanted)) and self.works()

    def create(self) -> None:
        """A new, empty environment of the running interpreter.

        Raises:
            SetupError: it could not be made.
        """
        say(f"Making {self.venv.name} with Python {sys.version.split()[0]} ({sys.executable}) ...")
        if self.venv.exists():
            shutil.rmtree(self.venv)
        self.venv.mkdir()
        self.unfinished.touch()
        made = subprocess.run([sys.executable, "-m", "venv", str(self.venv)], capture_output=True, text=True)
        if made.returncode:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            advice = f"On Debian or Ubuntu: apt-get install -y python{version}-venv"
            raise SetupError(f"A virtual environment could not be made. {advice}\n{made.stdout}{made.stderr}")

    def update(self) -> None:
        """Brings the environment to what `requirements/dev.txt` and `pyproject.toml` say.

        Raises:
            SetupError: a step failed; the text says which and what to do.
        """
        moved = (self.venv / "place").is_file() and not self.current("place")
        if self.unfinished.exists():
            say("An earlier set-up was interrupted; starting afresh.")
            self.create()
        elif moved or not self.works():
            self.create()
        if not self.current("pins"):
            say("Installing the pinned packages (about 80; a minute or two) ...")
            self.unfinished.touch()
            try:
                install(self.python, "Pinned packages", "--require-hashes", "--only-binary", ":all:", "-r", str(PINS))
            except SetupError:
                self.unfinished.unlink()  # pip itself ended and left things whole
                raise
            self.write("pins")
            self.unfinished.unlink()
        if not self.current("project"):
            install(self.python, "pvecloud itself", "--no-deps", "--no-build-isolation", "--no-index", "-e", ".")
            self.write("project")
        self.write("place")


def main() -> int:
    """Sets up the environment named by the first argument (`.venv`); 0 when it is ready."""
    # SIGTERM must unwind like Ctrl-C, so that pip is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    environment = Environment(ROOT / (sys.argv[1] if len(sys.argv) > 1 else ".venv"))
    try:
        if not environment.finished():
            with exclusive(environment.lock):
                if not environment.finished():
                    environment.update()
        return 0
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nSet-up interrupted; the same command starts it again.", file=sys.stderr)
    except OSError as error:
        print(f"\nSet-up failed: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
