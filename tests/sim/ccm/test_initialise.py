"""Nodes are initialised, by the real service over real sockets."""

import copy
from pathlib import Path
from typing import Any

import pytest

from kubekit.nodes import INSTANCE_ID
from tests.kubesim import Rule, answer
from tests.kubesim import delay as kube_delay
from tests.pvesim.faults import Action
from tests.pvesim.faults import Rule as PveRule
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_TOKEN, system_uuid, three_hosts, three_hosts_dict
from tests.sim.ccm.bench import TAINT, bench, new_node

NODES = (111, 121, 131)
NAMES = ("worker-11", "worker-21", "worker-31")


def calls(world: World) -> list[str]:
    return [f"{entry.kind} {entry.method} {entry.path}" for entry in world.log]


async def test_three_nodes_are_initialised(tmp_path: Path) -> None:
    world = three_hosts()
    async with bench(tmp_path, [world], [new_node(vmid) for vmid in NODES]) as at:
        async with at.service():
            await at.until_done(*NAMES)
        for vmid, name in zip(NODES, NAMES, strict=True):
            node, host = at.node(name), f"pve{(vmid - 100) // 10}"
            assert node["spec"]["providerID"] == f"proxmox://cluster-1/{vmid}"
            assert not node["spec"].get("taints")
            assert node["metadata"]["labels"] == {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/region": "cluster-1",
                "topology.kubernetes.io/zone": host,
                "failure-domain.beta.kubernetes.io/region": "cluster-1",
                "failure-domain.beta.kubernetes.io/zone": host,
                "topology.proxmox.sinextra.dev/region": "cluster-1",
                "topology.proxmox.sinextra.dev/zone": host,
                "node.kubernetes.io/instance-type": "4VCPU-8GB",
                "beta.kubernetes.io/instance-type": "4VCPU-8GB",
            }
            assert at.addresses(name) == [("InternalIP", f"10.0.0.{vmid}"), ("Hostname", name)]
            assert at.events("Synced", name) == ["Node synced successfully"]
        assert sorted(calls(world)) == sorted(
            ["background GET /cluster/resources"]
            + [f"foreground GET /nodes/pve{(vmid - 100) // 10}/qemu/{vmid}/config" for vmid in NODES]
        )
        assert sorted(at.node_writes()) == ["create events"] * 3 + ["patch nodes"] * 3 + ["patch nodes/status"] * 3
        lease = at.kube.get(
            "leases", "cloud-controller-manager-proxmox", namespace="kube-system", group="coordination.k8s.io"
        )
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""  # released


def many_workers(count: int) -> World:
    raw = three_hosts_dict()
    vms: dict[int, Any] = {}
    for index in range(count):
        vm = copy.deepcopy(raw["vms"][111])
        vm["node"] = f"pve{index % 3 + 1}"
        vm["config"] |= {"name": f"w-{index}", "smbios1": f"uuid={system_uuid(1000 + index)}", "net0": ""}
        vm["config"] = {key: vm["config"][key] for key in ("name", "cores", "memory", "smbios1")}
        vms[1000 + index] = vm
    return World.from_dict(raw | {"vms": vms})


async def test_300_nodes_cost_one_request_each_although_their_names_are_prefixes_of_one_another(tmp_path: Path) -> None:
    world = many_workers(300)
    nodes = [
        new_node(1000 + index, name=f"w-{index}", node_ip=f"10.1.{index // 250}.{index % 250 + 1}")
        for index in range(300)
    ]
    async with bench(tmp_path, [world], nodes) as at:
        async with at.service():
            await at.until(lambda: len(at.events("Synced")) == 300, timeout_s=60)
        assert not [node for node in at.kube.items("nodes") if node["spec"].get("taints")]
        assert world.count("foreground") == 300
        lists = [call for call in calls(world) if call == "background GET /cluster/resources"]
        assert world.count() == 300 + len(lists)
        assert len(lists) <= 3  # the first, and one every ten seconds
        writes = at.node_writes()
        assert len(writes) == 900
        assert writes.count("patch nodes") == 300


async def test_a_second_region_with_the_same_vmids(tmp_path: Path) -> None:
    raw = three_hosts_dict()
    other = three_hosts_dict(region="cluster-2")
    for vmid, vm in other["vms"].items():
        vm["config"]["smbios1"] = f"uuid={system_uuid(vmid + 5000)}"
    worlds = [World.from_dict(raw), World.from_dict(other)]
    nodes = [new_node(111), new_node(121, uuid=system_uuid(5121))]
    async with bench(tmp_path, worlds, nodes) as at, at.service():
        await at.until_done("worker-11", "worker-21")
        assert at.node("worker-11")["spec"]["providerID"] == "proxmox://cluster-1/111"
        assert at.node("worker-21")["spec"]["providerID"] == "proxmox://cluster-2/121"
        assert at.node("worker-21")["metadata"]["labels"]["topology.kubernetes.io/region"] == "cluster-2"


async def test_a_vm_copied_to_a_second_region_with_its_uuid_is_not_chosen_by_chance(tmp_path: Path) -> None:
    worlds = [three_hosts(), three_hosts(region="cluster-2")]
    async with bench(tmp_path, worlds, [new_node(111)]) as at, at.service():
        await at.until(lambda: at.events("ProxmoxAmbiguousMatch", "worker-11"))
        (message,) = at.events("ProxmoxAmbiguousMatch")
        assert (
            "VM 111 (worker-11) on pve1 in region cluster-1, VM 111 (worker-11) on pve1 in region cluster-2" in message
        )
        assert at.tainted("worker-11")
        assert "providerID" not in at.node("worker-11")["spec"]


async def test_another_uuid_keeps_the_taint_and_says_what_was_compared(tmp_path: Path) -> None:
    async with bench(tmp_path, [three_hosts()], [new_node(111, uuid=system_uuid(999))]) as at, at.service():
        await at.until(lambda: at.events("ProxmoxInstanceNotFound", "worker-11"))
        (message,) = at.events("ProxmoxInstanceNotFound")
        assert message == (
            f"the Node reports systemUUID {system_uuid(999)}, but VM 111 (worker-11) on pve1 in region cluster-1 has "
            f"SMBIOS UUID {system_uuid(111)}"
        )
        assert at.tainted("worker-11")


async def test_a_short_list_names_the_missing_right_and_is_tried_again(tmp_path: Path) -> None:
    # No other right for the user either: a token has at most its user's.
    raw = three_hosts_dict()
    raw["acl"] = [
        entry | {"path": "/vms/121"}
        for entry in raw["acl"]
        if CCM_TOKEN in entry.values() or "kubernetes@pve" in entry.values()
    ]
    world = World.from_dict(raw)
    async with bench(tmp_path, [world], [new_node(111)]) as at, at.service() as app:
        await at.until(lambda: at.events("ProxmoxInstanceNotFound", "worker-11"))
        (message,) = at.events("ProxmoxInstanceNotFound")
        assert "none of the 1 VMs that the token may see is named 'worker-11'" in message
        assert "has VM.Audit only on /vms/121" in message
        assert message.endswith("grant VM.Audit on /vms")
        assert at.tainted("worker-11")
        for key in list(world.access.acl):
            world.access.acl[type(key)("/vms", key.kind, key.who, key.role)] = True
        await app.clusters.get("cluster-1").inventory.refresh()
        await at.until_done("worker-11")


async def test_a_dead_cluster_is_unreachable_and_no_reason_to_give_up(tmp_path: Path) -> None:
    world = three_hosts()
    for name in ("pve1", "pve2", "pve3"):
        world.broadcasts.darken(name, "cut")
    async with bench(tmp_path, [world], [new_node(111)]) as at, at.service() as app:
        await at.until(lambda: at.events("ProxmoxUnreachable", "worker-11"))
        assert at.tainted("worker-11")
        await at.until(lambda: any("the connection broke" in reason for reason in app.health.ready()[1]))
        for name in ("pve1", "pve2", "pve3"):
            world.broadcasts.darken(name, "")
        await app.clusters.get("cluster-1").inventory.refresh()
        await at.until_done("worker-11")


async def test_a_conflict_is_decided_anew_on_the_changed_node(tmp_path: Path) -> None:
    other = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at:
        # While the first patch is on its way somebody adds a taint of his own.
        at.kube.faults.add(Rule(verb="patch", path="/api/v1/nodes/worker-11", action=kube_delay(0.3)))
        async with at.service():
            await at.until(lambda: at.kube.count("patch", "nodes"))
            node = at.node("worker-11")
            at.kube.apply(node | {"spec": {"taints": [TAINT, other]}})
            await at.until_done("worker-11")
        assert at.node("worker-11")["spec"]["taints"] == [other]
        assert at.kube.count("patch", "nodes") == 2
        assert at.kube.count("get", "nodes") == 1


async def test_a_node_that_is_deleted_meanwhile_is_forgotten(tmp_path: Path) -> None:
    world = three_hosts()
    world.faults.add(PveRule(Action("delay", seconds=0.3), path="/nodes/pve1/qemu/111/config"))
    async with bench(tmp_path, [world], [new_node(111)]) as at, at.service():
        await at.until(lambda: world.count("foreground"))
        at.kube.delete("nodes", "worker-11")
        await at.until(lambda: at.kube.count("patch", "nodes"))
        at.kube.apply(new_node(121))
        await at.until_done("worker-21")
        assert at.kube.get("nodes", "worker-11") is None
        assert at.kube.count("patch", "nodes") == 2
        assert at.node_writes().count("create events") == 1


@pytest.mark.parametrize("what", ["cut", "end", "expire"])
async def test_a_watch_that_breaks_is_taken_up_again(tmp_path: Path, what: str) -> None:
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at, at.service():
        await at.until_done("worker-11")
        {"cut": at.kube.cut_watches, "end": at.kube.end_watches, "expire": at.kube.expire}[what]()
        at.kube.apply(new_node(121))
        await at.until_done("worker-21")


async def test_another_clouds_node_is_left_alone(tmp_path: Path) -> None:
    world = three_hosts()
    foreign = new_node(111, provider_id="aws:///eu-central-1a/i-0abc")
    async with bench(tmp_path, [world], [foreign, new_node(121)]) as at, at.service():
        await at.until_done("worker-21")
        assert at.tainted("worker-11")
        assert at.events("Synced", "worker-11") == []
        assert [entry.path for entry in world.log if "111" in entry.path] == []


async def test_a_node_without_the_taint_gets_nothing_but_its_addresses(tmp_path: Path) -> None:
    plain, known = new_node(111), new_node(121, provider_id="proxmox://cluster-1/121")
    plain["spec"]["taints"] = known["spec"]["taints"] = []
    async with bench(tmp_path, [three_hosts()], [plain, known, new_node(131)]) as at, at.service():
        await at.until_done("worker-31", "worker-21")
        assert at.addresses("worker-21") == [("InternalIP", "10.0.0.121"), ("Hostname", "worker-21")]
        assert "topology.kubernetes.io/zone" not in at.node("worker-21")["metadata"]["labels"]
        assert at.node("worker-11") == plain | {"metadata": at.node("worker-11")["metadata"]}


async def test_a_wrong_node_ip_blocks_before_anything_is_asked(tmp_path: Path) -> None:
    world = three_hosts()
    async with bench(tmp_path, [world], [new_node(111, node_ip="10.0.0.1,10.0.0.2")]) as at, at.service():
        await at.until(lambda: at.events("ProvidedNodeIPMismatch", "worker-11"))
        (message,) = at.events("ProvidedNodeIPMismatch")
        assert "it may name one address, or one IPv4 and one IPv6" in message
        assert at.tainted("worker-11")
        assert world.count("foreground") == 0
        node = at.node("worker-11")
        annotations = {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1"}
        at.kube.apply(node | {"metadata": node["metadata"] | {"annotations": annotations}})
        await at.until_done("worker-11")
        assert at.addresses("worker-11") == [("InternalIP", "10.0.0.1"), ("Hostname", "worker-11")]


async def test_without_node_ip_the_kubelets_own_addresses_stay(tmp_path: Path) -> None:
    node = new_node(111, node_ip=None)
    node["status"]["addresses"] = [
        {"type": "InternalIP", "address": "10.9.9.9"},
        {"type": "Hostname", "address": "worker-11"},
    ]
    async with bench(tmp_path, [three_hosts()], [node]) as at, at.service():
        await at.until_done("worker-11")
        assert at.addresses("worker-11") == [("InternalIP", "10.9.9.9"), ("Hostname", "worker-11")]
        assert at.kube.count("patch", "nodes/status") == 0


async def test_cluster_apis_ids(tmp_path: Path) -> None:
    preset = new_node(111, name="machine-a", provider_id=f"proxmox://{system_uuid(111)}")
    async with bench(tmp_path, [three_hosts()], [preset, new_node(121)]) as at:
        async with at.service(features={"provider": "capmox"}):
            await at.until_done("machine-a", "worker-21")
        assert at.node("machine-a")["spec"]["providerID"] == f"proxmox://{system_uuid(111)}"
        assert at.node("machine-a")["metadata"]["annotations"][INSTANCE_ID] == "111"
        assert at.node("machine-a")["metadata"]["labels"]["topology.kubernetes.io/zone"] == "pve1"
        assert at.node("worker-21")["spec"]["providerID"] == f"proxmox://{system_uuid(121)}"
        assert at.node("worker-21")["metadata"]["annotations"][INSTANCE_ID] == "121"


async def test_a_kubelets_heartbeat_does_not_cut_the_back_off_short(tmp_path: Path) -> None:
    world = three_hosts()
    async with bench(tmp_path, [world], [new_node(111, uuid=system_uuid(999))]) as at, at.service() as app:
        await at.until(lambda: at.events("ProxmoxInstanceNotFound"))
        before = app.registry.get_sample_value("workqueue_adds_total", {"name": "Nodes"})
        for beat in range(20):
            node = at.node("worker-11")
            at.kube.apply(node | {"status": node["status"] | {"conditions": [{"type": "Ready", "beat": beat}]}})
        at.kube.apply(new_node(121))
        await at.until_done("worker-21")
        after = app.registry.get_sample_value("workqueue_adds_total", {"name": "Nodes"})
        assert before is not None
        assert after is not None
        assert (
            after - before < 10
        )  # the other Node and what is written to it, and perhaps a retry; not one for each beat


async def test_denied_writes_are_tried_again_and_lead_to_the_same_end(tmp_path: Path) -> None:
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at:
        at.kube.faults.add(
            Rule(verb="patch", path="/api/v1/nodes/*", action=answer(403, "nodes is forbidden", "Forbidden"))
        )
        async with at.service():
            await at.until_done("worker-11")


async def test_a_vm_that_moved_since_the_last_list_gets_its_new_hosts_zone(tmp_path: Path) -> None:
    world = three_hosts()
    async with bench(tmp_path, [world], [new_node(121)]) as at, at.service():
        await at.until_done("worker-21")
        world.vms[111].node = "pve3"
        at.kube.apply(new_node(111))
        await at.until_done("worker-11")
        assert at.node("worker-11")["metadata"]["labels"]["topology.kubernetes.io/zone"] == "pve3"
        assert at.node("worker-11")["spec"]["providerID"] == "proxmox://cluster-1/111"


async def test_a_provider_id_of_a_vm_that_is_not_there_says_so_with_its_proof(tmp_path: Path) -> None:
    gone = new_node(111, provider_id="proxmox://cluster-1/199")
    async with bench(tmp_path, [three_hosts()], [gone]) as at, at.service():
        await at.until(lambda: at.events("ProxmoxInstanceNotFound", "worker-11"))
        (message,) = at.events("ProxmoxInstanceNotFound")
        assert message.startswith("VM 199 does not exist in region cluster-1: nextid calls id 199 free")
        assert at.tainted("worker-11")
