"""A claim's whole life as the manual shows it, under the real control plane, sidecars and kubelet."""

from csikit.contract import wwn_of
from csikit.handles import parse_handle
from tests.kube.bench import EXAMPLES
from tests.kube.kube_api import documents
from tests.kube.setting import WORKERS, worker
from tests.kube.space import ATTACHMENTS, Space, claim, pod

GIB = 1 << 30
SHA = "sha256sum /data/file | cut -c 1-64"


def test_a_claim_as_the_manual_shows_it(space: Space) -> None:
    proxmox, manifest = space.bench.proxmox, documents(EXAMPLES / "claim-and-pod.yaml")

    space.apply(manifest)
    node = worker(space.wait_running("pg-0")["spec"]["nodeName"])
    volume = space.wait_bound("data-pg-0")

    # Bound on the host of the VM that the Pod runs in.
    handle = parse_handle(volume["spec"]["csi"]["volumeHandle"])
    assert (handle.region, handle.zone, handle.storage) == ("cluster-1", node.host, "local-lvm")
    assert handle.volume_name == f"vm-9999-{volume['metadata']['name']}"
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    affinity = {each["key"]: each["values"] for each in term["matchExpressions"]}
    assert affinity == {"topology.kubernetes.io/region": ["cluster-1"], "topology.kubernetes.io/zone": [node.host]}
    # Attached, with the volume's own identity.
    (attachment,) = space.api.list(ATTACHMENTS)
    assert attachment["status"]["attached"]
    (drive,) = proxmox.disks(node.vmid).values()
    assert drive.startswith(f"{handle.volid},")
    assert f"wwn={wwn_of(handle)}" in drive
    assert "ssd=1" in drive
    # Mounted: what the manual's Pod prints.
    assert "/data" in space.kubectl("kubectl logs pg-0")
    assert " xfs " in space.run("pg-0", "grep /data /proc/mounts")
    written = space.run("pg-0", f"dd if=/dev/urandom of=/data/file bs=1M count=16 2>/dev/null && sync && {SHA}")

    # Grown online, by the manual's command.
    space.kubectl("""kubectl patch pvc data-pg-0 -p '{"spec":{"resources":{"requests":{"storage":"20Gi"}}}}'""")
    path = space.path("persistentvolumeclaims", "data-pg-0")
    space.api.wait("20 GiB", lambda: space.api.get(path)["status"]["capacity"]["storage"] == "20Gi", 60)
    size = int(space.run("pg-0", "df -P -k /data | tail -n 1").split()[1]) * 1024
    assert 19.5 * GIB < size <= 20 * GIB
    assert proxmox.volumes()[handle.volid]["size"] == 20 * GIB

    # The Pod made again finds its data.
    space.delete_pod("pg-0")
    space.wait_detached()
    assert not proxmox.disks(node.vmid)
    space.apply(manifest[1:])
    space.wait_running("pg-0")
    assert space.run("pg-0", SHA) == written


def test_a_pod_for_another_host_waits_and_is_told_why(space: Space) -> None:
    space.apply([claim("data"), pod("here", "data")])
    here = worker(space.wait_running("here")["spec"]["nodeName"])
    other = next(each for each in WORKERS if each.host != here.host)

    space.apply([pod("there", "data", node=other.name, tolerate=True)])

    message = space.wait_event("there", "FailedScheduling", "node")
    assert "didn't match PersistentVolume's node affinity" in message or "volume node affinity conflict" in message
    found = space.pod("there")
    assert found
    assert found["status"]["phase"] == "Pending"


def test_a_claim_on_shared_storage_follows_its_pod_to_another_host(space: Space) -> None:
    here, there = worker("worker-2"), worker("worker-3")
    assert here.host != there.host
    space.apply([claim("data", storage_class="proxmox-shared"), pod("app", "data", node=here.name)])
    space.wait_running("app")

    volume = space.wait_bound("data")
    handle = parse_handle(volume["spec"]["csi"]["volumeHandle"])
    assert (handle.zone, handle.storage) == ("", "ceph")
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [each["key"] for each in term["matchExpressions"]] == ["topology.kubernetes.io/region"]
    (drive,) = space.bench.proxmox.disks(here.vmid).values()
    assert drive.startswith(f"{handle.volid},")
    space.run("app", "echo kept > /data/file && sync")

    space.delete_pod("app")
    space.apply([pod("app", "data", node=there.name)])
    space.wait_running("app")
    assert space.run("app", "cat /data/file") == "kept"
    assert not space.bench.proxmox.disks(here.vmid)
    (drive,) = space.bench.proxmox.disks(there.vmid).values()
    assert drive.startswith(f"{handle.volid},")


def test_raw_block(space: Space) -> None:
    consumer = pod("raw")
    consumer["spec"]["containers"][0]["volumeDevices"] = [{"name": "data", "devicePath": "/dev/xvda"}]
    consumer["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    space.apply([claim("data", mode="Block"), consumer])
    space.wait_running("raw")

    space.run("raw", "echo hello | dd of=/dev/xvda bs=512 conv=sync,fsync 2>/dev/null")
    assert space.run("raw", "dd if=/dev/xvda bs=5 count=1 2>/dev/null") == "hello"


def test_twenty_claims_at_once(space: Space) -> None:
    names = [f"n{number:02}" for number in range(20)]
    mark = space.bench.proxmox.mark()
    space.apply([each for name in names for each in (claim(name), pod(name, name))])
    for name in names:
        space.wait_running(name, 180)

    drives = [drive for each in WORKERS for drive in space.bench.proxmox.disks(each.vmid).values()]
    assert len(drives) == len({drive.split(",")[0] for drive in drives}) == len(names)
    writes = [
        entry
        for entry in space.bench.proxmox.log(mark)
        if entry["method"] in ("POST", "PUT") and entry["path"].endswith("/config")
    ]
    assert len(writes) <= len(names)
