from typing import Any

import pytest

from ccm.facts import InstanceFacts, facts_for

UUID = "E1B85C47-2f6d-4d0a-8c3e-7f9a4b6d5c13"


def facts(**config: Any) -> InstanceFacts:
    return facts_for(region="cluster-1", vmid=113, name="worker-3", host="pve3", config=config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "1VCPU-0GB"),
        ({"cores": 4, "memory": "8192"}, "4VCPU-8GB"),
        ({"cores": "2", "sockets": "2", "memory": 1536}, "4VCPU-1GB"),
        ({"cores": 8, "vcpus": 6, "memory": "current=16384"}, "6VCPU-16GB"),
        ({"cores": 4, "memory": "current=4096,something=else"}, "4VCPU-4GB"),
        ({"cores": 4, "memory": 8192, "smbios1": f"uuid={UUID},base64=1,sku=dDMuc21hbGw="}, "t3.small"),
    ],
)
def test_instance_type(config: dict[str, Any], expected: str) -> None:
    assert facts(**config).instance_type == expected


@pytest.mark.parametrize("sku", ["two words", "-dash", "x" * 64, "a/b", ""])
def test_a_sku_that_is_no_label_value_is_not_used(sku: str) -> None:
    import base64

    encoded = base64.b64encode(sku.encode()).decode()
    assert facts(cores=2, memory=2048, smbios1=f"base64=1,sku={encoded}").instance_type == "2VCPU-2GB"


def test_provider_ids() -> None:
    known = facts(smbios1=f"uuid={UUID}")
    assert known.provider_id("default") == "proxmox://cluster-1/113"
    assert known.provider_id("capmox") == f"proxmox://{UUID}"


def test_the_configuration_knows_the_name_better_than_a_stale_list() -> None:
    assert facts(name="renamed").name == "renamed"
    assert facts().name == "worker-3"
