"""What a guest finds on its cloud-init drive."""

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.world import World

pytestmark = pytest.mark.looptime
CLOUDINIT = "/nodes/pve1/qemu/111/cloudinit"


async def test_user_data_holds_name_user_and_keys(world: World, root: Direct) -> None:
    world.vms[111].conf |= {"ciuser": "ops", "sshkeys": "ssh-ed25519%20AAAA%20a%40b%0A", "searchdomain": "example.test"}

    text = (await root.get(f"{CLOUDINIT}/dump", type="user")).data

    assert text.startswith("#cloud-config\nhostname: worker-11\nmanage_etc_hosts: true\nfqdn: worker-11.example.test\n")
    assert "user: ops\nssh_authorized_keys:\n  - ssh-ed25519 AAAA a@b\nchpasswd:\n  expire: False\n" in text


async def test_network_configuration_holds_addresses_and_name_server(root: Direct) -> None:
    text = (await root.get(f"{CLOUDINIT}/dump", type="network")).data

    assert "mac_address: 'bc:24:11:00:00:0b'" in text
    assert "address: '10.0.0.111'\n        netmask: '255.255.255.0'\n        gateway: '10.0.0.1'\n" in text
    assert text.endswith("    - type: nameserver\n      address:\n      - '192.0.2.53'\n")


async def test_dhcp_on_both_protocols(world: World, root: Direct) -> None:
    world.vms[111].conf["ipconfig0"] = "ip=dhcp,ip6=auto"

    text = (await root.get(f"{CLOUDINIT}/dump", type="network")).data

    assert "      subnets:\n      - type: dhcp4\n      - type: ipv6_slaac\n" in text


async def test_a_missing_snippet_stops_the_drive(world: World, root: Direct) -> None:
    vm = world.vms[111]
    vm.conf |= {"ide2": "local-lvm:vm-111-cloudinit,media=cdrom", "cicustom": "user=local:snippets/u.yaml"}

    refused = await root.put(CLOUDINIT)
    del vm.conf["cicustom"]
    made = await root.put(CLOUDINIT)

    assert (refused.status, refused.reason) == (500, "volume 'local:snippets/u.yaml' does not exist")
    assert made.status == 200
    assert (await root.get(CLOUDINIT)).data == []
