"""`pvecloud-csi-node`: reads flags and settings, builds the service, runs it until SIGTERM."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from appkit.cli import service_overrides, service_parser
from appkit.logs import configure
from appkit.run import run_service
from appkit.settings import load
from csi_node.app import build
from csi_node.settings import ENV_PREFIX, NodeSettings


def parser() -> argparse.ArgumentParser:
    """Every flag, those of the Go node service included."""
    top = service_parser("pvecloud-csi-node", "CSI node service for Proxmox VE: formats, mounts and grows volumes")
    top.add_argument("--csi-address", metavar="ENDPOINT", help="where to listen (unix:///csi/csi.sock)")
    top.add_argument("--node-id", metavar="NAME[/VMID]", help="name of this Node (environment: NODE_NAME)")
    top.add_argument("--kubelet-dir", metavar="DIR", help="the kubelet's root directory (/var/lib/kubelet)")
    top.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (without: the Pod's own service account)")
    top.add_argument("--kube-server", "--master", metavar="URL", help="API server, instead of the kubeconfig's")
    top.add_argument("--dev-root", metavar="DIR", help="where device nodes are (/dev)")
    top.add_argument("--sys-root", metavar="DIR", help="where sysfs is (/sys)")
    top.add_argument("--device-timeout", dest="device_timeout_s", metavar="S", help="how long to wait for a disk (30)")
    top.add_argument("-v", "--v", dest="verbosity", metavar="N", type=_verbosity, help="5 and more: debug")
    return top


def read_settings(arguments: argparse.Namespace, env: Mapping[str, str]) -> NodeSettings:
    """Flags win over the environment, that over the file. Raises SettingsError."""
    paths = ("kubelet_dir", "kubeconfig", "dev_root", "sys_root")
    names = ("csi_address", "node_id", "kube_server", "device_timeout_s", *paths)
    overrides: dict[str, Any] = service_overrides(arguments) | {name: getattr(arguments, name) for name in names}
    if overrides["log_level"] is None and arguments.verbosity is not None and arguments.verbosity >= 5:
        overrides["log_level"] = "debug"
    # Kubernetes' own names for these two, with which existing manifests set them.
    for name, variable in (("node_id", "NODE_NAME"), ("kubeconfig", "KUBECONFIG")):
        overrides[name] = overrides[name] or env.get(f"{ENV_PREFIX}{name.upper()}") or env.get(variable) or None
    return load(NodeSettings, file=arguments.config, env=env, env_prefix=ENV_PREFIX, overrides=overrides)


def _verbosity(text: str) -> int:
    # Go's short form is `-v=5`, of which argparse hands on "=5".
    return int(text.removeprefix("="))


def main(argv: Sequence[str] | None = None) -> int:
    """The process's exit status."""
    arguments = parser().parse_args(argv)

    async def serve(stop: asyncio.Event) -> None:
        settings = read_settings(arguments, os.environ)
        configure(settings.log_format, settings.log_level)
        await build(settings, env=os.environ).run(stop)

    return run_service(serve)


if __name__ == "__main__":
    sys.exit(main())
