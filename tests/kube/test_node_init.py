"""A Node that joins: what the manual of the cloud-controller-manager shows, its commands included."""

from tests.kube import services
from tests.kube.bench import NODES, UNINITIALIZED
from tests.kube.space import Space, pod

NODE = "worker-3"


def test_a_new_node_is_initialised_and_a_waiting_pod_starts(space: Space) -> None:
    bench, worker = space.bench, space.bench.workers[NODE]
    bench.programs.stop(services.CCM, worker.name_of("kubelet"))
    space.api.delete(f"{NODES}/{NODE}")
    bench.programs.start_again(worker.name_of("kubelet"))
    space.api.wait("the kubelet registers its Node", lambda: space.api.find(f"{NODES}/{NODE}"), 30)

    node = space.api.get(f"{NODES}/{NODE}")
    assert UNINITIALIZED in {taint["key"] for taint in node["spec"]["taints"]}
    assert "providerID" not in node["spec"]
    assert "topology.kubernetes.io/zone" not in node["metadata"]["labels"]
    space.apply([pod("web", node=NODE)])
    space.wait_event("web", "FailedScheduling", "untolerated taint")

    bench.programs.start_again(services.CCM)
    assert space.wait_running("web")["spec"]["nodeName"] == NODE

    table = space.kubectl(
        "kubectl get nodes"
        " -L topology.kubernetes.io/region,topology.kubernetes.io/zone,node.kubernetes.io/instance-type"
    )
    row = next(line.split() for line in table.splitlines() if line.startswith(NODE))
    assert row[-3:] == ["cluster-1", "pve3", "4VCPU-8GB"]
    assert space.kubectl(f"kubectl get node {NODE} -o jsonpath='{{.spec.providerID}}'") == "proxmox://cluster-1/113"
    taints = space.kubectl(f"kubectl describe node {NODE} | grep Taints")
    assert taints.split() == ["Taints:", "<none>"]
    addresses = {each["type"]: each["address"] for each in space.api.get(f"{NODES}/{NODE}")["status"]["addresses"]}
    assert addresses == {"Hostname": NODE, "InternalIP": worker.address}
    bench.wait_ready()
