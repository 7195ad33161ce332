from typing import Any

import pytest

from ccm.addresses import ProvidedIpError, addresses_for, parse_provided_ips
from kubekit.nodes import PROVIDED_NODE_IP


def node(*reported: tuple[str, str], provided: str | None = None) -> dict[str, Any]:
    annotations = {} if provided is None else {PROVIDED_NODE_IP: provided}
    return {
        "metadata": {"name": "worker-1", "annotations": annotations},
        "status": {"addresses": [{"type": kind, "address": address} for kind, address in reported]},
    }


def as_pairs(addresses: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(each["type"], each["address"]) for each in addresses]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("10.0.0.23", ("10.0.0.23",)),
        ("10.0.0.23,fd00::23", ("10.0.0.23", "fd00::23")),
        ("fd00:0:0::23, 10.0.0.23", ("fd00::23", "10.0.0.23")),
        ("010.000.000.023", ("10.0.0.23",)),
        ("0.0.0.0", ("0.0.0.0",)),  # noqa: S104 - a value, nothing listens
    ],
)
def test_provided_ips_are_read(annotation: str, expected: tuple[str, ...]) -> None:
    assert parse_provided_ips(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("", "has '', which is no IP address"),
        ("10.0.0.300", "'10.0.0.300', which is no IP address"),
        ("10.0.0.1,", "has '', which is no IP address"),
        ("10.0.0.1,10.0.0.2", "one IPv4 and one IPv6"),
        ("10.0.0.1,fd00::1,fd00::2", "one IPv4 and one IPv6"),
        ("10.0.0.1,::", "none may be unspecified"),
    ],
)
def test_unusable_provided_ips_are_refused(annotation: str, text: str) -> None:
    with pytest.raises(ProvidedIpError, match=text):
        parse_provided_ips(annotation)


def test_provided_ips_come_first_in_their_order_then_the_host_name() -> None:
    addresses = addresses_for(node(("Hostname", "worker-1"), provided="fd00::23,10.0.0.23"))
    assert as_pairs(addresses) == [("InternalIP", "fd00::23"), ("InternalIP", "10.0.0.23"), ("Hostname", "worker-1")]


def test_provided_ips_replace_what_the_kubelet_guessed_but_not_its_host_name() -> None:
    addresses = addresses_for(node(("InternalIP", "172.17.0.1"), ("Hostname", "w1.lan"), provided="10.0.0.23"))
    assert as_pairs(addresses) == [("InternalIP", "10.0.0.23"), ("Hostname", "w1.lan")]


def test_without_the_annotation_nothing_is_taken_away() -> None:
    reported = (("Hostname", "worker-1"), ("InternalIP", "10.0.0.23"), ("ExternalIP", "192.0.2.1"))
    assert as_pairs(addresses_for(node(*reported))) == list(reported)


def test_a_node_without_any_address_gets_its_name() -> None:
    assert as_pairs(addresses_for({"metadata": {"name": "worker-1"}})) == [("Hostname", "worker-1")]
    assert as_pairs(addresses_for(node(("InternalIP", "10.0.0.23")))) == [
        ("InternalIP", "10.0.0.23"),
        ("Hostname", "worker-1"),
    ]
