"""Which addresses a Node reports, from what the kubelet was told. Pure.

Shape and order are those of the cloud-provider framework: the node IPs of the annotation in its order, then Hostname.
A Node whose kubelet was given no `--node-ip` keeps what it reports; a list is never made shorter because we know less.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any

from appkit.errors import InvalidRequest
from kubekit.nodes import PROVIDED_NODE_IP, addresses_of

Address = dict[str, str]
"""`{"type": "InternalIP" | "ExternalIP" | "Hostname" | …, "address": …}`, as in `status.addresses`."""


class ProvidedIpError(InvalidRequest):
    """The node IPs that the kubelet was given cannot be used; the text says which and why."""


def parse_provided_ips(annotation: str) -> tuple[str, ...]:
    """The addresses of the annotation, normalised; raises ProvidedIpError.

    At most two, and two must be of different families and both specified: the rules the kubelet and the cloud-provider
    framework share. Leading zeros in IPv4 are decimal, as Go's sloppy parser reads them.
    """
    parts = [part.strip() for part in annotation.split(",")]
    ips = []
    for part in parts:
        try:
            ips.append(ipaddress.ip_address(_without_leading_zeros(part)))
        except ValueError:
            raise ProvidedIpError(f"annotation {PROVIDED_NODE_IP} has {part!r}, which is no IP address") from None
    if len(ips) > 2 or (len(ips) == 2 and ips[0].version == ips[1].version):
        raise ProvidedIpError(
            f"annotation {PROVIDED_NODE_IP} has {annotation!r}; it may name one address, or one IPv4 and one IPv6"
        )
    if len(ips) == 2 and any(ip.is_unspecified for ip in ips):
        raise ProvidedIpError(
            f"annotation {PROVIDED_NODE_IP} has {annotation!r}; of two addresses none may be unspecified"
        )
    return tuple(str(ip) for ip in ips)


def addresses_for(node: Mapping[str, Any]) -> list[Address]:
    """The whole `status.addresses` that this Node should have; raises ProvidedIpError."""
    name: str = node["metadata"]["name"]
    reported: list[Address] = addresses_of(node)
    hostnames = [each for each in reported if each.get("type") == "Hostname"] or [{"type": "Hostname", "address": name}]
    annotation = (node["metadata"].get("annotations") or {}).get(PROVIDED_NODE_IP)
    if annotation is not None:
        return [{"type": "InternalIP", "address": ip} for ip in parse_provided_ips(annotation)] + hostnames
    others = [each for each in reported if each.get("type") != "Hostname"]
    return reported if len(others) + len(hostnames) == len(reported) else others + hostnames


def _without_leading_zeros(text: str) -> str:
    octets = text.split(".")
    if len(octets) == 4 and all(octet.isdecimal() for octet in octets):
        return ".".join(str(int(octet)) for octet in octets)
    return text
