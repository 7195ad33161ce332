import pytest

from appkit.errors import DriverError, InvalidRequest, ResourceExhausted, Unavailable
from csi_controller.placement import RegionView, Segment, choose
from pvekit.models import StorageDefinition


def storage(
    name: str, kind: str, *, shared: bool = False, nodes: str = "", content: str = "images"
) -> StorageDefinition:
    entry = {"storage": name, "type": kind, "shared": int(shared), "nodes": nodes, "content": content}
    parsed = StorageDefinition.parse(entry)
    assert parsed is not None
    return parsed


LVM = storage("lvm", "lvmthin")
ZFS = storage("zfs", "zfspool", nodes="pve1,pve2")
CEPH = storage("ceph", "rbd", shared=True)
NFS = storage("nfs", "nfs", nodes="pve2,pve3")


def view(definition: StorageDefinition | None, *, off: str = "", region: str = "r1", **avail: int) -> RegionView:
    hosts = {host: host != off for host in ("pve1", "pve2", "pve3")}
    return RegionView(region, hosts, definition, dict(avail))


def place(definition: StorageDefinition | None, *segments: Segment, off: str = "") -> tuple[str, str]:
    placement = choose("pvc-a", "s", segments, {"r1": view(definition, off=off)})
    return placement.zone, placement.host


def test_local_storage_goes_to_the_first_zone_that_has_it() -> None:
    assert place(LVM, Segment("r1", "pve2"), Segment("r1", "pve1")) == ("pve2", "pve2")
    assert place(ZFS, Segment("r1", "pve3"), Segment("r1", "pve1")) == ("pve1", "pve1")


def test_an_offline_host_is_waited_for_since_an_earlier_attempt_may_have_used_it() -> None:
    with pytest.raises(Unavailable, match="pve2"):
        place(LVM, Segment("r1", "pve2"), Segment("r1", "pve1"), off="pve2")


def test_shared_storage_has_no_zone_and_any_host_that_is_up() -> None:
    assert place(CEPH, Segment("r1", "pve2")) == ("", "pve2")
    assert place(CEPH, Segment("r1", "")) == ("", "pve1")
    assert place(CEPH, Segment("r1", "pve1"), off="pve1") == ("", "pve2")
    assert place(CEPH, Segment("r1", "pve9")) == ("", "pve1")
    assert place(NFS, Segment("r1", "pve3")) == ("", "pve3")


def test_a_sole_region_need_not_be_named() -> None:
    assert place(LVM, Segment("", "pve3")) == ("pve3", "pve3")


@pytest.mark.parametrize(
    ("definition", "segments", "off", "kind", "words"),
    [
        (LVM, [Segment("r1", "worker-1")], "", InvalidRequest, ["zone 'worker-1' is not a Proxmox host", "label"]),
        (LVM, [Segment("r1", "")], "", InvalidRequest, ["names no zone"]),
        (LVM, [Segment("r9", "pve1")], "", InvalidRequest, ["region 'r9'", "known: r1"]),
        (None, [Segment("r1", "pve1")], "", InvalidRequest, ["Datastore.Audit", "/storage/s"]),
        (
            storage("iso", "dir", content="iso"),
            [Segment("r1", "pve1")],
            "",
            InvalidRequest,
            ["not meant for disk images"],
        ),
        (ZFS, [Segment("r1", "pve3")], "", ResourceExhausted, ["not available on host pve3"]),
        (NFS, [Segment("r1", "pve1")], "", ResourceExhausted, ["not available on host pve1"]),
        (LVM, [Segment("r1", "pve2")], "pve2", Unavailable, ["host pve2", "offline"]),
        (ZFS, [Segment("r1", "pve3"), Segment("r1", "pve2")], "pve2", Unavailable, ["host pve2", "offline"]),
    ],
)
def test_refusals(
    definition: StorageDefinition | None, segments: list[Segment], off: str, kind: type[DriverError], words: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        place(definition, *segments, off=off)
    for word in words:
        assert word in str(caught.value)


def test_no_topology_takes_the_most_free_and_names_the_rivals() -> None:
    placement = choose("pvc-a", "lvm", [], {"r1": view(LVM, pve1=5, pve2=9, pve3=7)})
    assert (placement.zone, placement.rivals) == ("pve2", ("pve1", "pve3"))


def test_an_offline_rival_is_named_too() -> None:
    placement = choose("pvc-a", "lvm", [], {"r1": view(LVM, off="pve3", pve1=5, pve2=9, pve3=12)})
    assert (placement.zone, placement.rivals) == ("pve2", ("pve1", "pve3"))


def test_no_topology_and_no_sizes_is_still_the_same_host_for_the_same_name() -> None:
    views = {"r1": view(LVM)}
    assert choose("pvc-a", "lvm", [], views) == choose("pvc-a", "lvm", [], views)
    assert {choose(f"pvc-{n}", "lvm", [], views).zone for n in range(30)} == {"pve1", "pve2", "pve3"}


def test_no_topology_on_shared_storage_has_no_rivals() -> None:
    placement = choose("pvc-a", "ceph", [], {"r1": view(CEPH)})
    assert (placement.zone, placement.host, placement.rivals) == ("", "pve1", ())


def test_no_topology_and_two_regions_that_have_it_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="several regions"):
        choose("pvc-a", "lvm", [], {"r1": view(LVM), "r2": view(LVM, region="r2")})
    assert choose("pvc-a", "lvm", [], {"r1": view(None), "r2": view(LVM, region="r2")}).region == "r2"


def test_a_region_that_is_not_loaded_is_unavailable() -> None:
    empty = RegionView("r1", {}, None, {}, loaded=False)
    for segments in ([], [Segment("r1", "pve1")]):
        with pytest.raises(Unavailable, match="not loaded"):
            choose("pvc-a", "lvm", segments, {"r1": empty})
