"""The command line, including every flag that charts pass to the Go cloud-controller-manager.

Flags are read as Go writes them (`--leader-elect=false`, `--leader-elect-lease-duration=15s`, `-v=4`), so that an
existing Deployment moves by changing its image. What has no meaning here is accepted and reported once, never an
error; what is misspelt is one. Must not decide anything: it turns arguments into overrides for `ccm.settings`.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final

from appkit.cli import service_overrides, service_parser

_DURATION = re.compile(r"(?:\d+(?:\.\d*)?(?:h|ms|m|s))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?)(h|ms|m|s)")
_UNIT_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

IGNORED_SWITCHES: Final = (
    "allocate-node-cidrs",
    "allow-untagged-cloud",
    "authentication-skip-lookup",
    "authentication-tolerate-lookup-failure",
    "configure-cloud-routes",
    "contention-profiling",
    "disable-http2-serving",
    "enable-leader-migration",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "use-service-account-credentials",
)
IGNORED_VALUES: Final = (
    "authentication-kubeconfig",
    "authentication-token-webhook-cache-ttl",
    "authorization-always-allow-paths",
    "authorization-kubeconfig",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "cert-dir",
    "cidr-allocator-type",
    "client-ca-file",
    "cluster-cidr",
    "cluster-name",
    "concurrent-node-status-updates",
    "concurrent-service-syncs",
    "controller-start-interval",
    "external-cloud-volume-plugin",
    "feature-gates",
    "http2-max-streams-per-connection",
    "kube-api-burst",
    "kube-api-content-type",
    "kube-api-qps",
    "leader-migration-config",
    "log-flush-frequency",
    "min-resync-period",
    "node-monitor-period",
    "node-status-update-frequency",
    "node-sync-period",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-username-headers",
    "route-reconciliation-period",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tls-min-version",
    "tls-sni-cert-key",
    "vmodule",
    "webhook-bind-address",
    "webhook-cert-dir",
    "webhook-secure-port",
    "webhook-tls-cert-file",
    "webhook-tls-private-key-file",
    "webhooks",
)


def parse_duration(text: str) -> float:
    """Seconds of a Go duration: `15s`, `1m30s`, `500ms`; raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'must be a duration such as "15s" or "1m30s", not {text!r}')
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION_PART.findall(text))


def parse_switch(text: str) -> bool:
    """A boolean as Go's flag package reads it; raises ValueError."""
    known = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if text.lower() not in known:
        raise ValueError(f'must be "true" or "false", not {text!r}')
    return known[text.lower()]


def parser() -> argparse.ArgumentParser:
    """Every flag; destinations are the names of `ccm.settings.CcmSettings`' fields."""
    top = service_parser("pvecloud-ccm", "cloud-controller-manager for Kubernetes on Proxmox VE")
    top.add_argument("--cloud-config", metavar="FILE", help="YAML file with the Proxmox clusters and features")
    top.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (without: the Pod's own service account)")
    top.add_argument(
        "--kube-server", "--master", metavar="URL", help="API server, instead of the one in the kubeconfig"
    )
    top.add_argument(
        "--controllers", metavar="LIST", type=_split, help='what to run: "*", "cloud-node", "-cloud-node", … (all)'
    )
    top.add_argument("--concurrent-node-syncs", metavar="N", help="Nodes worked on at the same time (10)")
    top.add_argument("--secure-port", metavar="PORT", help="https port of /healthz, /readyz, /livez and /metrics (off)")
    top.add_argument("--bind-address", metavar="IP", help="address of --secure-port (all)")
    top.add_argument("--tls-cert-file", metavar="FILE", help="certificate of --secure-port (self-signed, in memory)")
    top.add_argument("--tls-private-key-file", metavar="FILE", help="private key of --tls-cert-file")
    _switch(top, "leader-elect", "run only while holding the Lease (true)")
    lease = "the Lease (cloud-controller-manager-proxmox)"
    top.add_argument("--leader-elect-resource-name", metavar="NAME", help=lease)
    top.add_argument("--leader-elect-resource-namespace", metavar="NAME", help="its namespace (kube-system)")
    for name, default in (("lease-duration", "15s"), ("renew-deadline", "10s"), ("retry-period", "2s")):
        top.add_argument(f"--leader-elect-{name}", metavar="TIME", type=_argument(parse_duration), help=default)
    top.add_argument("--leader-elect-resource-lock", choices=("leases",), help="only leases are supported")
    top.add_argument("--cloud-provider", choices=("proxmox",), help="accepted for charts; there is one provider")
    top.add_argument("-v", "--v", dest="verbosity", metavar="N", type=_argument(_verbosity), help="4 and more: debug")
    for name in IGNORED_SWITCHES:
        _switch(top, name, argparse.SUPPRESS)
    for name in IGNORED_VALUES:
        top.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return top


def overrides_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The given flags as overrides for `appkit.settings.load`, keyed by settings field; None: not given."""
    names = (
        "cloud_config", "kubeconfig", "kube_server", "controllers", "concurrent_node_syncs", "secure_port",
        "bind_address", "tls_cert_file", "tls_private_key_file", "leader_elect", "leader_elect_resource_name",
        "leader_elect_resource_namespace", "leader_elect_lease_duration", "leader_elect_renew_deadline",
        "leader_elect_retry_period",
    )  # fmt: skip
    values = service_overrides(arguments) | {name: getattr(arguments, name) for name in names}
    if values["log_level"] is None and arguments.verbosity is not None and arguments.verbosity >= 4:
        values["log_level"] = "debug"
    return values


def ignored_flags(arguments: argparse.Namespace) -> list[str]:
    """Which of the flags without meaning here were given, as `--name`."""
    every = (*IGNORED_SWITCHES, *IGNORED_VALUES)
    return [f"--{name}" for name in every if getattr(arguments, name.replace("-", "_")) is not None]


def _switch(parser_: argparse.ArgumentParser, name: str, text: str) -> None:
    # `const`: the bare flag means true, as in Go.
    parser_.add_argument(
        f"--{name}", nargs="?", const=True, type=_argument(parse_switch), metavar="true|false", help=text
    )


def _argument(parse: Any) -> Any:
    """`parse` with its own text as argparse's message."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _verbosity(text: str) -> int:
    # Go's short form is `-v=4`, of which argparse hands on "=4".
    return int(text.removeprefix("="))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Parse; prints and exits with status 2 for a flag that does not exist, as argparse does."""
    return parser().parse_args(list(argv))
