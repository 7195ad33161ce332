"""CSIStorageCapacity objects as the real provisioner publishes them from our GetCapacity."""

from tests.kube.setting import LOCAL_STORAGE, SHARED_STORAGE, WORKERS
from tests.kube.space import Space


def test_every_class_has_a_capacity_for_every_host(space: Space) -> None:
    found = {}
    for each in space.bench.capacities():
        labels = each["nodeTopology"]["matchLabels"]
        found[each["storageClassName"], labels["topology.kubernetes.io/zone"]] = each
        assert labels["topology.kubernetes.io/region"] == "cluster-1"

    hosts = [worker.host for worker in WORKERS]
    assert set(found) == {(name, host) for name in ("proxmox-data", "proxmox-shared") for host in hosts}
    # What the storage has, told by the storage's own host; nothing is allocated but the VMs' thin boot disks.
    for (name, host), each in found.items():
        storage = {"proxmox-data": LOCAL_STORAGE, "proxmox-shared": SHARED_STORAGE}[name]
        available = space.bench.proxmox.get(f"/nodes/{host}/storage/{storage}/status")["avail"]
        assert abs(parse_quantity(each["capacity"]) - available) < 1 << 20, (name, host)


def parse_quantity(text: str) -> int:
    """Kubernetes' way to write a number of bytes."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)
