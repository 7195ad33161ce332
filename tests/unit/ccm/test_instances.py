from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from appkit.clock import SystemClock
from appkit.metrics import Metrics
from ccm.instances import InstanceFinder
from ccm.outcomes import Ambiguous, Found, NoInstance, Unreachable
from ccm.visibility import Visibility
from kubekit.nodes import NodeIdentity
from pvekit.clusters import Clusters
from pvekit.metrics import PveMetrics
from pvekit.settings import CloudConfig
from tests.unit.ccm.tiny_proxmox import TinyProxmox, TinyVm

U1 = "11111111-6d2f-4d0a-8c3e-7f9a4b6d5c13"
U2 = "22222222-6d2f-4d0a-8c3e-7f9a4b6d5c13"


def identity(
    name: str = "w-1", uuid: str = U1, *, provider_id: str = "", instance_id: str = "", region: str = ""
) -> NodeIdentity:
    return NodeIdentity(name, "uid", provider_id, uuid, instance_id, region, "", (), {})


@asynccontextmanager
async def finder(**regions: TinyProxmox) -> AsyncIterator[InstanceFinder]:
    clusters = [
        {"region": name, "url": f"https://{name}.test:8006", "token_id": "a@pve!b", "token_secret": "s"}
        for name in regions
    ]
    clock, metrics = SystemClock(), PveMetrics(Metrics(CollectorRegistry()))
    built = Clusters.build(
        CloudConfig.model_validate({"clusters": clusters}),
        transport_for=lambda settings: regions[settings.region],
        clock=clock,
        metrics=metrics,
        storages=False,
        drives=False,
    )
    built.start()
    for region in built.regions():
        if not regions[region.name].down:
            await region.inventory.wait_ready(1)
        else:
            with pytest.raises(Exception, match="All connection attempts failed"):
                await region.inventory.refresh()
    try:
        yield InstanceFinder(built, Visibility(clock), metrics, clock)
    finally:
        await built.aclose()


async def test_found_by_name_and_uuid_with_one_read() -> None:
    r1 = TinyProxmox({111: TinyVm("w-1", "pve2", U1), 112: TinyVm("w-10", uuid=U2), 113: TinyVm("x", uuid=U1)})
    async with finder(r1=r1) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Found)
    facts = outcome.facts
    assert (facts.region, facts.vmid, facts.host, facts.instance_type) == ("r1", 111, "pve2", "4VCPU-8GB")
    assert r1.log == ["/cluster/resources", "/nodes/pve2/qemu/111/config"]


@pytest.mark.parametrize("reported", [U1.upper(), U1.replace("-", ""), "11111111-2f6d-0a4d-8c3e-7f9a4b6d5c13"])
async def test_found_however_the_kubelet_writes_the_uuid(reported: str) -> None:
    async with finder(r1=TinyProxmox({111: TinyVm("w-1", uuid=U1)})) as find:
        assert isinstance(await find.find(identity(uuid=reported)), Found)


async def test_a_longer_name_is_found_and_the_others_are_read_once_only() -> None:
    r1 = TinyProxmox({100 + n: TinyVm(f"w-1-{n}", uuid=U2) for n in range(5)} | {200: TinyVm("w-1-me", uuid=U1)})
    async with finder(r1=r1) as find:
        assert isinstance(await find.find(identity()), Found)
        assert r1.configs_read == 6
        assert isinstance(await find.find(identity()), Found)
        assert r1.configs_read == 7


async def test_an_unmatched_node_costs_nothing_the_second_time() -> None:
    r1 = TinyProxmox({100 + n: TinyVm(f"w-1{n}", uuid=U2) for n in range(3)})
    async with finder(r1=r1) as find:
        first = await find.find(identity())
        mark = len(r1.log)
        second = await find.find(identity())
    assert first == second
    assert isinstance(first, NoInstance)
    assert (
        f"the Node reports systemUUID {U1}, but VM 100 (w-10) on pve1 in region r1 has SMBIOS UUID {U2}" in first.reason
    )
    assert len(r1.log) == mark


async def test_no_such_name_and_a_token_that_sees_everything() -> None:
    async with finder(r1=TinyProxmox({111: TinyVm("other", uuid=U1)})) as find:
        outcome = await find.find(identity())
    assert outcome == NoInstance(
        "none of the 1 VMs that the token may see is named 'w-1' or has a name that begins with it"
    )


async def test_a_list_cut_short_by_missing_rights_is_said_to_be_so() -> None:
    r1 = TinyProxmox({111: TinyVm("w-1", uuid=U1, audit=False), 112: TinyVm("x")})
    r1.privileges = {"/vms/112": {"VM.Audit": 1}}
    async with finder(r1=r1) as find:
        outcome = await find.find(identity())
        again = await find.find(identity())
    assert isinstance(outcome, NoInstance)
    assert "the Proxmox VE token of region r1 has VM.Audit only on /vms/112" in outcome.reason
    assert "grant VM.Audit on /vms" in outcome.reason
    assert again == outcome
    assert r1.log.count("/access/permissions") == 1


async def test_templates_and_containers_are_no_candidates() -> None:
    r1 = TinyProxmox({111: TinyVm("w-1", uuid=U1, template=True), 112: TinyVm("w-1", uuid=U1, type="lxc")})
    async with finder(r1=r1) as find:
        assert isinstance(await find.find(identity()), NoInstance)


async def test_two_vms_with_the_name_and_the_uuid_are_ambiguous() -> None:
    copies = {"r1": TinyProxmox({111: TinyVm("w-1", uuid=U1)}), "r2": TinyProxmox({111: TinyVm("w-1", uuid=U1)})}
    async with finder(**copies) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Ambiguous)
    assert "VM 111 (w-1) on pve1 in region r1, VM 111 (w-1) on pve1 in region r2" in outcome.reason


async def test_two_regions_with_the_same_vmid_and_name_are_told_apart_by_uuid() -> None:
    async with finder(
        r1=TinyProxmox({111: TinyVm("w-1", uuid=U2)}), r2=TinyProxmox({111: TinyVm("w-1", "pve3", U1)})
    ) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Found)
    assert (outcome.facts.region, outcome.facts.host) == ("r2", "pve3")


async def test_a_silent_region_does_not_hide_a_vm_that_runs_elsewhere() -> None:
    r1, r2 = TinyProxmox({}), TinyProxmox({111: TinyVm("w-1", uuid=U1)})
    r1.down = True
    async with finder(r1=r1, r2=r2) as find:
        assert isinstance(await find.find(identity()), Found)


async def test_a_copy_that_does_not_run_is_not_taken_while_a_region_is_silent() -> None:
    r1, r2 = TinyProxmox({}), TinyProxmox({111: TinyVm("w-1", uuid=U1, status="stopped", uptime_s=0)})
    r1.down = True
    async with finder(r1=r1, r2=r2) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Unreachable)
    assert "fits but is not running; could not be told: region r1 does not answer" in outcome.reason


async def test_not_found_while_a_region_is_silent_is_not_known() -> None:
    r1, r2 = TinyProxmox({}), TinyProxmox({112: TinyVm("x")})
    r1.down = True
    async with finder(r1=r1, r2=r2) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Unreachable)
    assert outcome.reason.startswith("region r1 does not answer: ")
    assert "apart from that, none of the 1 VMs" in outcome.reason


async def test_vms_without_a_name_may_be_it() -> None:
    async with finder(r1=TinyProxmox({111: TinyVm(None, "pve3", status="unknown")})) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Unreachable)
    assert outcome.reason.startswith("not named yet, or on a silent host: VM 111 (no name yet) on pve3 in region r1")


async def test_a_host_that_does_not_answer_for_the_vm() -> None:
    r1 = TinyProxmox({111: TinyVm("w-1", "pve2", U1)})
    r1.dark = {"pve2"}
    async with finder(r1=r1) as find:
        outcome = await find.find(identity())
    assert isinstance(outcome, Unreachable)
    assert "VM 111 (w-1) on pve2 in region r1" in outcome.reason


async def test_a_vm_that_moved_since_the_list_was_read_is_followed() -> None:
    r1 = TinyProxmox({111: TinyVm("w-1", "pve3", U1, listed_on="pve2")})
    async with finder(r1=r1) as find:
        r1.vms[111].listed_on = ""
        outcome = await find.find(identity())
    assert isinstance(outcome, Found)
    assert outcome.facts.host == "pve3"
    assert r1.log == [
        "/cluster/resources",
        "/nodes/pve2/qemu/111/config",
        "/cluster/resources",
        "/nodes/pve3/qemu/111/config",
    ]


@pytest.mark.parametrize(
    "who",
    [
        identity("renamed", provider_id="proxmox://r2/113"),
        identity("renamed", instance_id="113", region="r2"),
        identity("renamed", provider_id=f"proxmox://{U1}", instance_id="113", region="r2"),
        identity("renamed", provider_id="proxmox:///113", instance_id="113", region="r2"),
    ],
)
async def test_what_the_node_says_of_itself_outranks_the_name(who: NodeIdentity) -> None:
    r1, r2 = TinyProxmox({113: TinyVm("renamed", uuid=U1)}), TinyProxmox({113: TinyVm("w-3", uuid=U1)})
    async with finder(r1=r1, r2=r2) as find:
        outcome = await find.find(who)
    assert isinstance(outcome, Found)
    assert (outcome.facts.region, outcome.facts.vmid) == ("r2", 113)
    assert r1.configs_read == 0


@pytest.mark.parametrize("provider_id", ["proxmox://", "proxmox://r1/abc", "proxmox:///111"])
async def test_a_provider_id_that_names_no_vm_leaves_it_to_the_name(provider_id: str) -> None:
    async with finder(r1=TinyProxmox({111: TinyVm("w-1", uuid=U1)})) as find:
        assert isinstance(await find.find(identity(provider_id=provider_id)), Found)


async def test_cluster_apis_uuid_finds_a_vm_of_any_name() -> None:
    r1 = TinyProxmox({n: TinyVm(f"vm-{n}", uuid=U2) for n in range(100, 105)} | {113: TinyVm("abc", uuid=U1)})
    async with finder(r1=r1) as find:
        outcome = await find.find(identity(provider_id=f"'proxmox://{U1}'"))
        assert isinstance(outcome, Found)
        assert outcome.facts.vmid == 113
        assert r1.configs_read == 6


@pytest.mark.parametrize(
    ("who", "kind", "text"),
    [
        (identity(provider_id="proxmox://r9/111"), NoInstance, "region 'r9' is not configured; known: r1"),
        (identity(provider_id="proxmox://r1/999"), NoInstance, "VM 999 does not exist in region r1: nextid"),
        (identity(provider_id="proxmox://r1/112"), NoInstance, "grant VM.Audit on /vms/112"),
        (identity(provider_id="proxmox://r1/113"), NoInstance, "id 113 is a container"),
        (identity(provider_id="proxmox://r1/114"), NoInstance, f"UUID {U2} and the Node reports systemUUID {U1}"),
        (identity(provider_id="proxmox://r1/115"), NoInstance, "has no SMBIOS UUID and the Node reports"),
        (identity(provider_id="proxmox://r1/116"), Unreachable, "No route to host"),
        (identity(uuid="", provider_id="proxmox://r1/111"), NoInstance, "reports no systemUUID yet"),
    ],
)  # fmt: skip
async def test_a_named_vm_that_is_not_the_nodes(who: NodeIdentity, kind: type, text: str) -> None:
    r1 = TinyProxmox(
        {
            111: TinyVm("w-1", uuid=U1),
            112: TinyVm("w-2", uuid=U1, audit=False),
            113: TinyVm("w-3", type="lxc"),
            114: TinyVm("w-4", uuid=U2),
            115: TinyVm("w-5"),
            116: TinyVm("w-6", "pve2", uuid=U1),
        }
    )
    r1.dark = {"pve2"}
    async with finder(r1=r1) as find:
        outcome = await find.find(who)
    assert isinstance(outcome, kind)
    assert not isinstance(outcome, Found)
    assert text in outcome.reason
