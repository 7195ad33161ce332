"""Who may do what: credentials, privileges by path, filtering of lists, texts of refusals."""

import pytest

from tests.pvesim.access import AclKey, Identity
from tests.pvesim.direct import Direct
from tests.pvesim.requests import SimRequest
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_PRIVILEGES, CSI_SECRET, CSI_TOKEN, three_hosts

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "No ticket"),
        ("Bearer x", "No ticket"),
        (f"pveapitoken={CSI_TOKEN}={CSI_SECRET}", "No ticket"),
        ("PVEAPIToken=garbage", "Authentication failed!"),
        (f"PVEAPIToken={CSI_TOKEN}=wrong", "Authentication failed!"),
        (f"PVEAPIToken={CSI_TOKEN}={CSI_SECRET} ", "Authentication failed!"),
    ],
)
async def test_bad_credentials_are_401_without_a_body(world: World, header: str, reason: str) -> None:
    answer = await world.handle(SimRequest("GET", "/api2/json/version", {"authorization": header}))
    assert (answer.status, answer.reason, answer.body) == (401, reason, b"")
    assert answer.headers["Connection"] == "close"


async def test_401_takes_three_seconds_when_time_is_as_measured() -> None:
    world = three_hosts(profile="as measured")
    await world.handle(SimRequest("GET", "/api2/json/version"))
    assert world.clock.monotonic() == pytest.approx(3.0)


async def test_both_spellings_of_a_token_work(world: World) -> None:
    for header in (f"PVEAPIToken={CSI_TOKEN}={CSI_SECRET}", f"PVEAPIToken {CSI_TOKEN}={CSI_SECRET}"):
        assert (await world.handle(SimRequest("GET", "/api2/json/version", {"authorization": header}))).status == 200


async def test_a_ticket_needs_the_csrf_token_for_writes(world: World) -> None:
    world.access.users["root@pam"].password = "secret"
    ticket, csrf = world.authenticator.issue_ticket("root@pam", world.clock.time(), "nonce")
    headers = {"cookie": f"PVEAuthCookie={ticket}"}
    assert (await world.handle(SimRequest("GET", "/api2/json/version", headers))).status == 200
    refused = await world.handle(SimRequest("POST", "/api2/json/access/users?userid=a@pve", headers))
    assert (refused.status, refused.reason) == (401, "Permission denied - invalid csrf token")
    headers["csrfpreventiontoken"] = csrf
    assert (await world.handle(SimRequest("POST", "/api2/json/access/users?userid=a@pve", headers))).status == 200


async def test_a_missing_right_is_named_before_the_parameters_are_looked_at(world: World, csi: Direct) -> None:
    world.access.custom_roles["CSI"].discard("VM.Audit")
    for vmid in ("111", "abc", "99"):
        reply = await csi.get(f"/nodes/pve1/qemu/{vmid}/config")
        assert (reply.status, reply.reason) == (403, f"Permission check failed (/vms/{vmid}, VM.Audit)")


@pytest.mark.parametrize(
    ("missing", "path"),
    [
        ("Datastore.AllocateSpace", "/storage/local"),
    ],
)
async def test_allocation_needs_space_on_the_storage(world: World, csi: Direct, missing: str, path: str) -> None:
    world.access.custom_roles["CSI"].discard(missing)
    reply = await csi.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1M")
    assert reply.reason == f"Permission check failed ({path}, {missing})"


async def test_lists_are_filtered_and_answer_200(world: World, csi: Direct) -> None:
    world.access.custom_roles["CSI"].difference_update(
        {"VM.Audit", "Datastore.Audit", "Datastore.AllocateSpace", "Datastore.Allocate"}
    )
    resources = await csi.get("/cluster/resources")
    assert {entry["type"] for entry in resources.data} == {"node"}
    assert "cpu" not in resources.data[0]
    assert (await csi.get("/nodes/pve1/storage")).data == []
    assert (await csi.get("/storage")).data == []


async def test_nextid_sees_through_the_acls(world: World, csi: Direct) -> None:
    world.access.custom_roles["CSI"].discard("VM.Audit")
    used = await csi.get("/cluster/nextid", vmid=111)
    assert (used.status, used.errors) == (400, {"vmid": "VM 111 already exists"})
    assert (await csi.get("/cluster/nextid", vmid=113)).data == "113"


async def test_a_foreign_volume_needs_rights_on_its_owner(world: World, csi: Direct) -> None:
    await csi.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1M")
    world.access.custom_roles["CSI"].difference_update({"Datastore.Allocate", "VM.Config.Disk"})
    reply = await csi.get("/nodes/pve1/storage/local/content/local:9999/vm-9999-a.raw")
    assert reply.reason == "Permission check failed (/vms/9999, VM.Config.Disk)"
    assert (await csi.get("/nodes/pve1/storage/local/content")).data == []


async def test_a_separated_token_has_the_intersection_with_its_user(world: World) -> None:
    who = Identity("kubernetes-csi@pve", "csi")
    assert set(world.access.permissions(who, "/vms/111")) == set(CSI_PRIVILEGES)
    del world.access.acl[AclKey("/", "user", "kubernetes-csi@pve", "CSI")]
    assert world.access.permissions(who, "/vms/111") == {}


async def test_a_deeper_entry_replaces_what_comes_from_above(world: World) -> None:
    who = Identity("kubernetes-csi@pve", "csi")
    world.access.acl[AclKey("/vms/111", "token", CSI_TOKEN, "NoAccess")] = True
    assert world.access.permissions(who, "/vms/111") == {}
    assert "VM.Audit" in world.access.permissions(who, "/vms/112")


async def test_own_permissions_are_listed_by_path(ccm: Direct) -> None:
    reply = await ccm.get("/access/permissions")
    assert reply.data["/"] == {"VM.Audit": 1, "VM.GuestAgent.Audit": 1, "Sys.Audit": 1}
    assert "/vms" in reply.data


async def test_tokens_even_of_root_cannot_do_what_only_root_may(root: Direct) -> None:
    assert (await root.put("/nodes/pve1/qemu/111/config", args="-foo")).reason == "only root can set 'args' config"
    reply = await root.put("/nodes/pve1/qemu/111/config", skiplock=1)
    assert reply.errors == {"skiplock": "Only root may use this option."}
