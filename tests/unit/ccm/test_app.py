"""The whole service in one process on virtual time: no sockets, minutes in milliseconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from appkit.clock import SystemClock
from ccm.app import App, build
from ccm.settings import CcmSettings, Loaded
from kubekit.lease import LeaseLost
from kubekit.nodes import PROVIDED_NODE_IP, UNINITIALIZED_TAINT
from kubekit.sessions import KubeSession
from pvekit.settings import CloudConfig
from tests.kubesim.cluster import Cluster
from tests.kubesim.transport import SimTransport
from tests.unit.ccm.tiny_proxmox import TinyProxmox, TinyVm

U1 = "11111111-6d2f-4d0a-8c3e-7f9a4b6d5c13"
U2 = "22222222-6d2f-4d0a-8c3e-7f9a4b6d5c13"
CLOUD = CloudConfig.model_validate(
    {"clusters": [{"region": "r1", "url": "https://r1.test", "token_id": "a@pve!b", "token_secret": "s"}]}
)


def node(name: str = "w-1", uuid: str = U1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {PROVIDED_NODE_IP: "10.0.0.1"}},
        "spec": {"taints": [{"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}]},
        "status": {"nodeInfo": {"systemUUID": uuid}},
    }


@asynccontextmanager
async def service(kube: Cluster, proxmox: TinyProxmox, **settings: Any) -> AsyncIterator[App]:
    session = KubeSession(SimTransport(kube), clock=SystemClock())
    loaded = Loaded(CcmSettings(cloud_config=Path("unused"), **settings), CLOUD)
    app = await build(loaded, transport_for=lambda _: proxmox, kube=session)
    stop = asyncio.Event()
    running = asyncio.create_task(app.run(stop))
    try:
        yield app
    finally:
        stop.set()
        await running
        await app.aclose()


def reasons(kube: Cluster) -> dict[str, int]:
    return {each["reason"]: each["count"] for each in kube.items("events")}


@pytest.mark.looptime
async def test_an_unmatched_node_is_tried_ever_more_rarely_and_costs_no_reads() -> None:
    kube, proxmox = Cluster([node()], clock=SystemClock()), TinyProxmox({111: TinyVm("w-1", uuid=U2)})
    async with service(kube, proxmox):
        await asyncio.sleep(600)
        assert proxmox.configs_read == 1
        assert proxmox.log.count("/cluster/resources") <= 61
        assert len(proxmox.log) <= 72  # the rights are asked for once a minute at most
        tries = reasons(kube)["ProxmoxInstanceNotFound"]
        assert 10 <= tries <= 16
        # The VM gets the right UUID by a restart; within two minutes it is noticed.
        proxmox.vms[111] = TinyVm("w-1", uuid=U1, uptime_s=5)
        await asyncio.sleep(130)
    assert "Synced" in reasons(kube)


@pytest.mark.looptime
async def test_five_quiet_minutes_cost_only_the_list() -> None:
    kube = Cluster([node()], clock=SystemClock())
    proxmox = TinyProxmox({111: TinyVm("w-1", uuid=U1)})
    async with service(kube, proxmox):
        await asyncio.sleep(60)
        mark, writes = len(proxmox.log), kube.count("patch")
        await asyncio.sleep(300)
        assert set(proxmox.log[mark:]) == {"/cluster/resources"}
        assert len(proxmox.log) - mark <= 31
        assert kube.count("patch") == writes


@pytest.mark.looptime
async def test_switched_off_controllers_do_nothing_but_stay() -> None:
    kube, proxmox = Cluster([node()], clock=SystemClock()), TinyProxmox({111: TinyVm("w-1", uuid=U1)})
    async with service(kube, proxmox, controllers=("cloud-node-lifecycle",)):
        await asyncio.sleep(60)
    assert proxmox.log == []
    assert kube.count("patch") == 0


@pytest.mark.looptime
async def test_a_wrong_address_of_an_initialised_node_is_put_right_at_once() -> None:
    kube, proxmox = Cluster([node()], clock=SystemClock()), TinyProxmox({111: TinyVm("w-1", uuid=U1)})
    async with service(kube, proxmox):
        await asyncio.sleep(5)
        found = kube.get("nodes", "w-1")
        assert found is not None
        right = found["status"]["addresses"]
        kube.apply({**found, "status": {**found["status"], "addresses": right[::-1]}})
        await asyncio.sleep(1)
        again = kube.get("nodes", "w-1")
        assert again is not None
        assert again["status"]["addresses"] == right


@pytest.mark.looptime
async def test_losing_the_lease_ends_the_work_and_the_process() -> None:
    kube, proxmox = Cluster([node()], clock=SystemClock()), TinyProxmox({111: TinyVm("w-1", uuid=U1)})
    session = KubeSession(SimTransport(kube), clock=SystemClock())
    app = await build(
        Loaded(CcmSettings(cloud_config=Path("unused")), CLOUD), transport_for=lambda _: proxmox, kube=session
    )
    running = asyncio.create_task(app.run(asyncio.Event()))
    await asyncio.sleep(5)
    lease = kube.get("leases", "cloud-controller-manager-proxmox", namespace="kube-system", group="coordination.k8s.io")
    assert lease is not None
    kube.apply({**lease, "spec": {**lease["spec"], "holderIdentity": "another", "leaseTransitions": 7}})
    with pytest.raises(LeaseLost):
        await running
    mark = len(proxmox.log)
    kube.apply(node("w-2"))
    await app.aclose()
    await asyncio.sleep(60)
    assert len(proxmox.log) == mark
    assert kube.count("patch", "nodes") == 1
