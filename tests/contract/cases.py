"""What holds on pvesim and on a real Proxmox VE alike, as cases to be run on either. See `callers.py` for how.

`READING` changes nothing. `WRITING` makes and removes volumes of, and VMs with, the ids it was given. Must hold on
every release that is simulated, and must clean up behind itself.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

from tests.contract.callers import Caller

Case = Callable[[Caller], Awaitable[None]]


async def version_and_lists(caller: Caller) -> None:
    version = (await caller.ask("GET", "/version")).data
    assert re.fullmatch(r"\d+\.\d+", version["release"])
    assert version["version"].startswith(f"{version['release']}.")
    resources = (await caller.ask("GET", "/cluster/resources")).data
    assert {f"node/{caller.node}", f"storage/{caller.node}/{caller.storage}"} <= {entry["id"] for entry in resources}
    nodes = (await caller.ask("GET", "/nodes")).data
    assert caller.node in {node["node"] for node in nodes}


async def a_free_id_is_a_string(caller: Caller) -> None:
    assert (await caller.ask("GET", "/cluster/nextid", vmid=caller.vmid)).data == str(caller.vmid)
    below = await caller.ask("GET", "/cluster/nextid", vmid=99)
    assert (below.status, list(below.errors)) == (400, ["vmid"])


async def a_wrong_secret_is_401_without_a_body(caller: Caller) -> None:
    reply = await caller.anonymous("GET", "/version", {})
    assert (reply.status, reply.reason, reply.raw) == (401, "Authentication failed!", b"")


async def what_does_not_exist_is_told_by_text(caller: Caller) -> None:
    missing = await caller.ask("GET", f"/nodes/{{node}}/qemu/{caller.vmid}/config")
    path = f"nodes/{caller.node}/qemu-server/{caller.vmid}.conf"
    assert (missing.status, missing.reason) == (500, f"Configuration file '{path}' does not exist")
    content = await caller.ask("GET", "/nodes/{node}/storage/nosuch/content")
    assert (content.status, content.reason) == (500, "storage 'nosuch' does not exist")
    status = await caller.ask("GET", "/nodes/{node}/storage/nosuch/status")
    assert (status.status, status.errors) == (400, {"storage": "No such storage."})
    unknown = await caller.ask("GET", "/nosuch")
    assert (unknown.status, unknown.reason) == (501, "Method 'GET /nosuch' not implemented")
    host = await caller.ask("GET", "/nodes/nosuchhost/qemu")
    assert host.status == 500
    assert host.reason.startswith("hostname lookup 'nosuchhost' failed")


async def parameters_are_checked_with_a_reason_each(caller: Caller) -> None:
    reply = await caller.ask("POST", "/nodes/{node}/storage/{storage}/content", filename="a.raw", size="1.5G", bogus=1)
    assert (reply.status, reply.reason) == (400, "Parameter verification failed.")
    assert reply.errors["size"] == "value does not match the regex pattern"
    assert reply.errors["vmid"] == "property is missing and it is not optional"
    assert reply.errors["bogus"].startswith("property is not defined in schema")


async def an_unknown_task_is_told_apart_from_a_garbled_one(caller: Caller) -> None:
    upid = f"UPID:{caller.node}:00000001:00000001:6B000000:imgdel:x:root@pam!none:"
    assert (await caller.ask("GET", f"/nodes/{{node}}/tasks/{upid}/status")).errors == {"upid": "no such task"}
    garbled = await caller.ask("GET", "/nodes/{node}/tasks/garbage/status")
    assert garbled.errors == {"upid": "unable to parse worker upid"}


async def volumes_come_and_go(caller: Caller) -> None:
    content = "/nodes/{node}/storage/{storage}/content"
    name, volid = f"vm-{caller.vmid}-contract.raw", f"{caller.storage}:{caller.vmid}/vm-{caller.vmid}-contract.raw"
    params = {"vmid": caller.vmid, "filename": name, "size": "4M"}
    assert (await caller.ask("POST", content, **params)).data == volid
    try:
        again = await caller.ask("POST", content, **params)
        assert again.status == 500
        assert again.reason.endswith("already exists")
        info = (await caller.ask("GET", f"{content}/{volid}")).data
        assert (info["size"], info["format"], set(info) >= {"path", "used"}) == (4 << 20, "raw", True)
    finally:
        assert (await caller.ask("DELETE", f"{content}/{volid}", delay=25)).data is None
    gone = await caller.ask("GET", f"{content}/{volid}")
    assert (gone.status, gone.reason) == (500, f"volume_size_info on '{volid}' failed - no format")
    # Of a directory what is not there can be deleted.
    assert (await caller.ask("DELETE", f"{content}/{volid}", delay=25)).status == 200
    slash = await caller.ask("POST", content, vmid=caller.vmid, filename="a/b.raw", size="4M")
    assert slash.reason == "unable to parse volume filename 'a/b.raw'"


async def a_stopped_vm_takes_and_gives_disks(caller: Caller) -> None:
    content, vm = "/nodes/{node}/storage/{storage}/content", f"/nodes/{{node}}/qemu/{caller.vmid}"
    owner = caller.vmid + 1
    volid = f"{caller.storage}:{owner}/vm-{owner}-contract.raw"
    made = await caller.ask("POST", "/nodes/{node}/qemu", vmid=caller.vmid, name="contract", scsihw="virtio-scsi-pci")
    assert await caller.finish(made) == "OK"
    try:
        name = volid.rpartition("/")[2]
        assert (await caller.ask("POST", content, vmid=owner, filename=name, size="4M")).data == volid
        digest = (await caller.ask("GET", f"{vm}/config")).data["digest"]
        written = await caller.ask("PUT", f"{vm}/config", scsi3=f"{volid},wwn=0x5056432d49443031", digest=digest)
        assert (written.status, written.data) == (200, None)
        config = (await caller.ask("GET", f"{vm}/config")).data
        assert config["scsi3"] == f"{volid},size=4M,wwn=0x5056432d49443031"
        stale = await caller.ask("PUT", f"{vm}/config", delete="scsi3", digest=digest)
        assert (stale.status, stale.reason) == (500, "checksum mismatch (file change by other user?)")
        missing = await caller.ask("PUT", f"{vm}/config", scsi4=f"{caller.storage}:{owner}/gone.raw")
        assert missing.reason == f"volume '{caller.storage}:{owner}/gone.raw' does not exist"
        shrunk = await caller.ask("PUT", f"{vm}/resize", disk="scsi3", size="2M")
        assert await caller.finish(shrunk) == "shrinking disks is not supported"
        assert await caller.finish(await caller.ask("PUT", f"{vm}/resize", disk="scsi3", size="8M")) == "OK"
        unset = await caller.ask("PUT", f"{vm}/config", delete="scsi9")
        assert unset.status == 200
        # A foreign disk's entry vanishes, the disk stays.
        assert (await caller.ask("PUT", f"{vm}/config", delete="scsi3")).status == 200
        keys = {entry["key"] for entry in (await caller.ask("GET", f"{vm}/pending")).data}
        assert not keys & {"scsi3", "unused0"}
        assert (await caller.ask("GET", f"{content}/{volid}")).data["size"] == 8 << 20
    finally:
        await caller.ask("DELETE", f"{content}/{volid}", delay=25)
        assert await caller.finish(await caller.ask("DELETE", vm)) == "OK"


async def an_own_disk_is_kept_as_unused(caller: Caller) -> None:
    vm = f"/nodes/{{node}}/qemu/{caller.vmid}"
    made = await caller.ask("POST", "/nodes/{node}/qemu", vmid=caller.vmid, scsi0=f"{caller.storage}:0.01")
    assert await caller.finish(made) == "OK"
    try:
        taken = await caller.ask("POST", "/nodes/{node}/qemu", vmid=caller.vmid)
        assert taken.reason == (
            f"unable to create VM {caller.vmid} - VM {caller.vmid} already exists on node '{caller.node}'"
        )
        await caller.ask("PUT", f"{vm}/config", delete="scsi0")
        config = (await caller.ask("GET", f"{vm}/config")).data
        assert config["unused0"] == f"{caller.storage}:{caller.vmid}/vm-{caller.vmid}-disk-0.raw"
        assert config["boot"] == " "
    finally:
        assert await caller.finish(await caller.ask("DELETE", vm)) == "OK"
    left = (await caller.ask("GET", "/nodes/{node}/storage/{storage}/content", vmid=caller.vmid)).data
    assert left == []


READING: Sequence[Case] = (
    version_and_lists,
    a_free_id_is_a_string,
    a_wrong_secret_is_401_without_a_body,
    what_does_not_exist_is_told_by_text,
    parameters_are_checked_with_a_reason_each,
    an_unknown_task_is_told_apart_from_a_garbled_one,
)
WRITING: Sequence[Case] = (volumes_come_and_go, a_stopped_vm_takes_and_gives_disks, an_own_disk_is_kept_as_unused)
