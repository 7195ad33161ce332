"""CSIStorageCapacity objects as the real provisioner publishes them from our GetCapacity."""

from tests.kube.setting import WORKERS
from tests.kube.space import Space


def test_every_class_has_a_capacity_for_every_host(space: Space) -> None:
    found = {}
    for each in space.bench.capacities():
        labels = each["nodeTopology"]["matchLabels"]
        found[each["storageClassName"], labels["topology.kubernetes.io/zone"]] = each
        assert labels["topology.kubernetes.io/region"] == "cluster-1"

    hosts = [worker.host for worker in WORKERS]
    assert set(found) == {(name, host) for name in ("proxmox-data", "proxmox-shared") for host in hosts}
