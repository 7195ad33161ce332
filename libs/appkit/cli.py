"""The command-line flags that every service shares.

Must not have defaults: a flag that was not given leaves the word to the environment and the file, and the default
stands once, in the settings model.
"""

import argparse
from pathlib import Path
from typing import Any, Literal

from appkit.settings import Settings
from appkit.version import __version__


class ServiceSettings(Settings):
    """The settings behind the shared flags; a service's settings model is derived from it."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "text"
    metrics_address: str = ""
    """`host:port` of /metrics, /healthz and /readyz; empty: none is served."""


def service_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser with `--version`, `--config`, `--log-level`, `--log-format` and `--metrics-address`."""
    parser = argparse.ArgumentParser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{prog} {__version__}")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with the settings")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="least severity to log")
    parser.add_argument("--log-format", choices=("json", "text"), help="one JSON object or one text line per record")
    parser.add_argument(
        "--metrics-address", metavar="HOST:PORT", help="where to serve /metrics, /healthz and /readyz (none if not set)"
    )
    return parser


def service_overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """The given flags of `service_parser` as overrides for `appkit.settings.load`."""
    names = ("log_level", "log_format", "metrics_address")
    return {name: getattr(arguments, name) for name in names}
