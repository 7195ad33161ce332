"""Files from outside, and root's copies of volumes."""

import json

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.requests import SimRequest, SimResponse
from tests.pvesim.state import Volume
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN

pytestmark = pytest.mark.looptime
LOCAL = "/api2/json/nodes/pve1/storage/local"
ROOT = f"PVEAPIToken={ROOT_TOKEN}={ROOT_SECRET}"


async def _upload(world: World, content: str, filename: str, data: bytes, *, authorization: str = ROOT) -> SimResponse:
    body = (
        f'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\n{content}\r\n'
        f'--b\r\nContent-Disposition: form-data; name="filename"; filename="{filename}"\r\n\r\n'
    ).encode() + data + b"\r\n--b--\r\n"  # fmt: skip
    headers = {"authorization": authorization, "content-type": "multipart/form-data; boundary=b"}
    return await world.handle(SimRequest("POST", f"{LOCAL}/upload", headers, body))


def _ticket(world: World) -> dict[str, str]:
    ticket, csrf = world.authenticator.issue_ticket("root@pam", world.clock.time(), "n")
    form = "application/x-www-form-urlencoded"
    return {"cookie": f"PVEAuthCookie={ticket}", "csrfpreventiontoken": csrf, "content-type": form}


async def _copy(world: World, volume: str, body: str, storage: str = "local") -> str:
    path = f"/api2/json/nodes/pve1/storage/{storage}/content/{volume}"
    answer = await world.handle(SimRequest("POST", path, _ticket(world), body.encode()))
    assert answer.status == 200, answer.body
    await world.tasks.settle()
    return world.tasks.by_upid[json.loads(answer.body)["data"]].exitstatus or ""


def _volume(world: World, storage: str, name: str) -> Volume:
    fmt = "qcow2" if name.endswith(".qcow2") else "raw"
    return world.storages.put(world.storages.get(storage), "pve1", name, 1 << 20, fmt)


async def test_an_uploaded_file_is_listed_with_its_size(world: World, root: Direct) -> None:
    assert (await _upload(world, "iso", "ci.iso", b"x" * 2048)).status == 200
    await world.tasks.settle()

    entries = (await root.get("/nodes/pve1/storage/local/content", content="iso")).data

    assert [(entry["volid"], entry["size"], entry["format"]) for entry in entries] == [
        ("local:iso/ci.iso", 2048, "iso")
    ]


@pytest.mark.parametrize(
    ("content", "filename", "errors"),
    [
        ("iso", "x.txt", {"filename": "wrong file extension"}),
        (
            "images",
            "x.raw",
            {"content": "value 'images' does not have a value in the enumeration 'iso, vztmpl, import'"},
        ),
    ],
)
async def test_a_file_of_the_wrong_kind_is_refused(
    world: World, content: str, filename: str, errors: dict[str, str]
) -> None:
    answer = await _upload(world, content, filename, b"x")

    assert (answer.status, json.loads(answer.body)["errors"]) == (400, errors)


async def test_a_file_that_is_no_qcow2_fails_in_the_task(world: World) -> None:
    answer = await _upload(world, "import", "x.qcow2", b"not an image")
    await world.tasks.settle()

    task = world.tasks.by_upid[json.loads(answer.body)["data"]]
    assert task.exitstatus is not None
    assert task.exitstatus.endswith("Image is not in qcow2 format")


async def test_an_upload_without_the_right_is_refused_without_a_body(world: World) -> None:
    answer = await _upload(world, "iso", "ci.iso", b"x", authorization=f"PVEAPIToken={CSI_TOKEN}={CSI_SECRET}")

    assert (answer.status, answer.body) == (403, b"")
    assert answer.reason == "Permission check failed (/storage/local, Datastore.AllocateTemplate)"


async def test_no_token_may_copy_a_volume(world: World, root: Direct) -> None:
    _volume(world, "local", "9999/a.raw")

    reply = await root.post("/nodes/pve1/storage/local/content/9999/a.raw", target="9999/b.raw")

    assert (reply.status, reply.reason) == (403, "Permission check failed (user != root@pam)")


async def test_root_copies_to_a_name_of_its_choice_on_another_host(world: World) -> None:
    _volume(world, "local", "9999/a.raw")

    assert await _copy(world, "9999/a.raw", "target=8888/any.raw&target_node=pve2") == "OK"

    copied = world.storages.find_volume("local:8888/any.raw", "pve2")
    assert copied is not None
    assert (copied.owner, copied.size_bytes) == (8888, 1 << 20)


async def test_a_copy_onto_an_existing_or_another_format_fails(world: World) -> None:
    _volume(world, "local", "9999/a.raw")
    _volume(world, "local", "9999/b.raw")

    assert (await _copy(world, "9999/a.raw", "target=9999/b.raw")).endswith("failed: exit code 255")
    assert (await _copy(world, "9999/a.raw", "target=9999/c.qcow2")).endswith("failed: exit code 255")
    assert await _copy(world, "9999/a.raw", "target=nonsense") == "unable to parse directory volume name 'nonsense'"


async def test_on_a_shared_storage_the_copy_is_well_and_copies_nothing(world: World) -> None:
    _volume(world, "ceph", "vm-9999-a")

    assert await _copy(world, "vm-9999-a", "target=vm-9999-b", storage="ceph") == "OK"
    assert world.storages.find_volume("ceph:vm-9999-b", "pve1") is None


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"notes": "n"}, "only backups can have notes"),
        ({"protected": "1"}, "only backups support attribute 'protected'"),
    ],
)
async def test_images_have_neither_notes_nor_protection(
    world: World, csi: Direct, params: dict[str, str], reason: str
) -> None:
    _volume(world, "local", "9999/a.raw")

    reply = await csi.put("/nodes/pve1/storage/local/content/9999/a.raw", **params)

    assert (reply.status, reply.reason) == (500, reason)
