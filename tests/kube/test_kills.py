"""Each process killed in the middle of a claim: the claim ends right, with one volume, and nothing is left.

"In the middle" is made certain by a fault that lets pvesim hold the decisive request for a while; it takes effect after
the kill. Killing pvesim itself would end the machines as well, so its hosts' API goes dark instead, as when pveproxy
dies everywhere: the VMs and their disks go on.
"""

import threading
from typing import Any

import pytest

from tests.kube import services
from tests.kube.setting import LOCAL_STORAGE
from tests.kube.space import ATTACHMENTS, Space, claim, pod

HELD_S = 2.0
NODE, VMID = "worker-3", 113
CREATE = {"method": "POST", "path": f"/nodes/*/storage/{LOCAL_STORAGE}/content"}
ATTACH = {"method": "POST", "path": f"/nodes/*/qemu/{VMID}/config"}
GROW = {"method": "PUT", "path": f"/nodes/*/qemu/{VMID}/resize"}
DELETE = {"method": "DELETE", "path": f"/nodes/*/storage/{LOCAL_STORAGE}/content/*"}


def hold(space: Space, request: dict[str, str]) -> int:
    """pvesim holds the next request like this; the mark for `wait_held`."""
    rule: dict[str, Any] = request | {"action": {"kind": "delay", "seconds": HELD_S}}
    space.bench.proxmox.add_fault(rule)
    return space.bench.proxmox.mark()


def wait_held(space: Space, request: dict[str, str], mark: int) -> None:
    """Until that request has come."""
    prefix, _, suffix = request["path"].partition("*")

    def came() -> bool:
        entries = space.bench.proxmox.log(mark)
        return any(
            entry["method"] == request["method"]
            and entry["path"].startswith(prefix)
            and suffix.rstrip("/*") in entry["path"]
            for entry in entries
        )

    space.api.wait(f"{request['method']} {request['path']} is on its way", came, 60, every_s=0.05)


def check_life(space: Space) -> None:
    """The Pod runs, on one volume with one attachment, and keeps what it writes."""
    space.wait_running("app", 120)
    assert len(space.bench.proxmox.volumes()) == 1
    assert len(space.bench.proxmox.disks(VMID)) == 1
    space.run("app", "echo kept > /data/file && sync")
    assert space.run("app", "cat /data/file") == "kept"


@pytest.mark.parametrize("program", [services.CONTROLLER, "csi-provisioner"])
def test_killed_while_a_volume_is_created(space: Space, program: str) -> None:
    mark = hold(space, CREATE)
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    wait_held(space, CREATE, mark)
    space.bench.programs.kill(program)
    check_life(space)


@pytest.mark.parametrize("program", [services.CONTROLLER, "csi-attacher"])
def test_killed_while_a_volume_is_attached(space: Space, program: str) -> None:
    mark = hold(space, ATTACH)
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    wait_held(space, ATTACH, mark)
    space.bench.programs.kill(program)
    check_life(space)


def test_node_service_killed_while_a_volume_is_staged(space: Space) -> None:
    node_service = space.bench.workers[NODE].name_of("csi-node")
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    space.api.wait(
        "attached",
        lambda: any((each.get("status") or {}).get("attached") for each in space.api.list(ATTACHMENTS)),
        60,
        every_s=0.02,
    )
    for _ in range(3):
        space.bench.programs.kill(node_service)
        threading.Event().wait(0.7)
    check_life(space)


@pytest.mark.parametrize("program", [services.CONTROLLER, "csi-resizer"])
def test_killed_while_a_volume_grows(space: Space, program: str) -> None:
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    check_life(space)
    mark = hold(space, GROW)
    space.kubectl("""kubectl patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'""")
    wait_held(space, GROW, mark)
    space.bench.programs.kill(program)
    path = space.path("persistentvolumeclaims", "data")
    space.api.wait("2 GiB", lambda: space.api.get(path)["status"]["capacity"]["storage"] == "2Gi", 120)
    assert int(space.run("app", "df -P -k /data | tail -n 1").split()[1]) > 1.9 * (1 << 20)


def test_controller_killed_while_a_volume_is_detached_and_deleted(space: Space) -> None:
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    check_life(space)
    mark = hold(space, ATTACH)
    space.delete_pod("app")
    wait_held(space, ATTACH, mark)
    space.bench.programs.kill(services.CONTROLLER)
    space.wait_detached()
    assert not space.bench.proxmox.disks(VMID)
    mark = hold(space, DELETE)
    space.api.delete(space.path("persistentvolumeclaims", "data"))
    wait_held(space, DELETE, mark)
    space.bench.programs.kill(services.CONTROLLER)


def test_proxmox_goes_dark_in_the_middle_of_a_claim(space: Space) -> None:
    proxmox = space.bench.proxmox
    proxmox.add_fault(CREATE | {"action": {"kind": "cut_after"}})
    mark = proxmox.mark()
    space.apply([claim("data"), pod("app", "data", node=NODE)])
    wait_held(space, CREATE, mark)
    proxmox.darken("cut")
    try:
        threading.Event().wait(5)
    finally:
        proxmox.darken("")
    check_life(space)
