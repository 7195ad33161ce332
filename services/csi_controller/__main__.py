"""`pvecloud-csi-controller`: reads flags and settings, builds the service, runs it until SIGTERM."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from appkit.cli import service_overrides, service_parser
from appkit.logs import configure, get_logger
from appkit.run import run_service
from csi_controller.app import build
from csi_controller.settings import ENV_PREFIX, Loaded, load_settings

_log = get_logger(__name__)

_METRICS_PATH = "/metrics"
# klog's flags, which charts of the Go program may set; where lines go and how they look is decided by our own.
_IGNORED = ("vmodule", "stderrthreshold", "log_file", "log_dir", "log_file_max_size", "log_backtrace_at")
_IGNORED_SWITCHES = (
    "logtostderr",
    "alsologtostderr",
    "one_output",
    "skip_headers",
    "skip_log_headers",
    "add_dir_header",
)


def parser() -> argparse.ArgumentParser:
    """Every flag, those of the Go controller included."""
    top = service_parser(
        "pvecloud-csi-controller", "CSI controller for Proxmox VE: creates, attaches and grows volumes"
    )
    top.add_argument("--cloud-config", metavar="FILE", help="YAML file with the Proxmox clusters and features (needed)")
    top.add_argument("--csi-address", metavar="ENDPOINT", help="where to listen (unix:///csi/csi.sock)")
    top.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (without: KUBECONFIG, the Pod's service account)")
    top.add_argument("--kube-server", "--master", metavar="URL", help="API server, instead of the kubeconfig's")
    top.add_argument("--metrics-path", metavar="PATH", help="accepted for charts; metrics are at /metrics")
    top.add_argument("-v", "--v", dest="verbosity", metavar="N", type=_verbosity, help="4 and more: debug")
    for name in _IGNORED:
        top.add_argument(f"--{name}", help=argparse.SUPPRESS)
    for name in _IGNORED_SWITCHES:
        top.add_argument(f"--{name}", nargs="?", const="true", help=argparse.SUPPRESS)
    return top


def read_settings(arguments: argparse.Namespace, env: Mapping[str, str]) -> Loaded:
    """Flags win over the environment, that over the file. Raises SettingsError."""
    names = ("cloud_config", "csi_address", "kubeconfig", "kube_server")
    overrides: dict[str, Any] = service_overrides(arguments) | {name: getattr(arguments, name) for name in names}
    if overrides["log_level"] is None and arguments.verbosity is not None and arguments.verbosity >= 4:
        overrides["log_level"] = "debug"
    if overrides["kubeconfig"] is None and not env.get(f"{ENV_PREFIX}KUBECONFIG"):
        overrides["kubeconfig"] = env.get("KUBECONFIG") or None
    return load_settings(config=arguments.config, env=env, overrides=overrides)


def ignored_flags(arguments: argparse.Namespace) -> list[str]:
    """Which of the flags without meaning here were given, as `--name`."""
    given = [f"--{name}" for name in (*_IGNORED, *_IGNORED_SWITCHES) if getattr(arguments, name) is not None]
    if arguments.metrics_path not in (None, _METRICS_PATH):
        given.append("--metrics-path")
    return given


def _verbosity(text: str) -> int:
    # Go's short form is `-v=4`, of which argparse hands on "=4".
    return int(text.removeprefix("="))


def main(argv: Sequence[str] | None = None) -> int:
    """The process's exit status."""
    arguments = parser().parse_args(argv)

    async def serve(stop: asyncio.Event) -> None:
        loaded = read_settings(arguments, os.environ)
        configure(loaded.settings.log_format, loaded.settings.log_level)
        if ignored := ignored_flags(arguments):
            _log.warning("flags without effect", extra={"flags": " ".join(ignored)})
        await (await build(loaded)).run(stop)

    return run_service(serve)


if __name__ == "__main__":
    sys.exit(main())
