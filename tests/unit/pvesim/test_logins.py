"""Logins with user and password: tickets, renewal, end of life, second factors; and what tokens have of their users."""

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.pvesim.direct import Direct, Reply
from tests.pvesim.requests import SimRequest, SimResponse
from tests.pvesim.world import World
from tests.pvesim.worlds import three_hosts_dict

pytestmark = pytest.mark.looptime
TICKET = "/api2/json/access/ticket"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def world() -> World:
    raw = three_hosts_dict()
    raw["users"] = {
        "admin@pve": {"password": "secret"},
        "careful@pve": {"password": "secret", "tfa": "123456"},
        "gone@pve": {"password": "secret", "enabled": False},
    }
    raw["tokens"] |= {
        "admin@pve!whole": {"secret": "w", "privsep": False},
        "admin@pve!part": {"secret": "p", "privsep": True},
    }
    raw["acl"] = [*raw["acl"], {"user": "admin@pve", "role": "PVEAdmin"}]
    return World.from_dict(raw)


async def login(world: World, **params: str) -> Any:
    """(status, reason, data) of POST /access/ticket."""
    answer = await world.handle(SimRequest("POST", TICKET, FORM, urlencode(params).encode()))
    reply = _parsed(answer)
    return reply.status, reply.reason, reply.data


def _parsed(answer: SimResponse) -> Reply:
    return Reply(answer.status, answer.reason, json.loads(answer.body).get("data"))


async def ask(world: World, ticket: str, csrf: str = "", *, method: str = "GET") -> tuple[int, str]:
    headers = {"cookie": f"PVEAuthCookie={ticket}"} | ({"csrfpreventiontoken": csrf} if csrf else {})
    path = "/version" if method == "GET" else "/cluster/ha/rules/none"
    answer = await world.handle(SimRequest(method, f"/api2/json{path}", headers))
    return answer.status, answer.reason


async def test_a_password_earns_a_ticket_and_a_csrf_token(world: World) -> None:
    for params in ({"username": "admin@pve"}, {"username": "admin", "realm": "pve"}):
        status, _, data = await login(world, password="secret", **params)
        assert status == 200
        assert (data["username"], data["ticket"][:14]) == ("admin@pve", "PVE:admin@pve:")
        assert await ask(world, data["ticket"]) == (200, "OK")
    assert await ask(world, data["ticket"], method="DELETE") == (401, "Permission denied - invalid csrf token")
    assert (await ask(world, data["ticket"], data["CSRFPreventionToken"], method="DELETE"))[0] == 200


@pytest.mark.parametrize(
    ("user", "password"),
    [("admin@pve", "wrong"), ("nobody@pve", "secret"), ("gone@pve", "secret"), ("root@pam", "x")],
)
async def test_a_refused_login_does_not_say_why(world: World, user: str, password: str) -> None:
    assert (await login(world, username=user, password=password))[:2] == (401, "authentication failure")


async def test_a_ticket_lives_two_hours_and_renews_itself_before(world: World) -> None:
    _, _, first = await login(world, username="admin@pve", password="secret")
    await asyncio.sleep(7000)
    status, _, second = await login(world, username="admin@pve", password=first["ticket"])
    assert status == 200
    assert second["ticket"] != first["ticket"]
    await asyncio.sleep(300)
    assert await ask(world, first["ticket"]) == (401, "Authentication failed!")
    assert await ask(world, second["ticket"]) == (200, "OK")
    # What has ended renews nothing, and nobody renews another's.
    assert (await login(world, username="admin@pve", password=first["ticket"]))[0] == 401
    assert (await login(world, username="root@pam", password=second["ticket"]))[0] == 401


async def test_a_disabled_users_ticket_ends_at_once(world: World) -> None:
    _, _, data = await login(world, username="admin@pve", password="secret")
    world.access.users["admin@pve"].enabled = False
    assert await ask(world, data["ticket"]) == (401, "Authentication failed!")


async def test_where_a_second_factor_is_due_the_password_is_no_ticket(world: World) -> None:
    status, _, data = await login(world, username="careful@pve", password="secret")
    assert (status, data["NeedTFA"]) == (200, 1)
    assert data["ticket"].startswith("PVE:!tfa!")
    assert await ask(world, data["ticket"]) == (401, "No ticket")
    challenge = {"username": "careful@pve", "tfa-challenge": data["ticket"]}
    assert (await login(world, password="totp:000000", **challenge))[:2] == (401, "authentication failure")
    status, _, full = await login(world, password="totp:123456", **challenge)
    assert status == 200
    assert await ask(world, full["ticket"]) == (200, "OK")
    # Renewal asks for no second factor again.
    status, _, renewed = await login(world, username="careful@pve", password=full["ticket"])
    assert "NeedTFA" not in renewed


async def test_a_separated_token_has_nothing_of_its_user_by_itself(world: World) -> None:
    whole, part = Direct(world, "admin@pve!whole", "w"), Direct(world, "admin@pve!part", "p")
    config = "/nodes/pve1/qemu/111/config"
    assert (await whole.get(config)).status == 200
    refused = await part.get(config)
    assert (refused.status, refused.reason) == (403, "Permission check failed (/vms/111, VM.Audit)")
    assert (await part.get("/access/permissions")).data == {}
