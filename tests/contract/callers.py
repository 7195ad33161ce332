"""One way to ask pvesim and a real Proxmox VE the same question.

`PVE_URL` (https://host:8006), `PVE_TOKEN` (user@realm!name=secret) and, where nobody knows its certificate,
`PVE_CA_FILE` or `PVE_INSECURE=1` name a real host; `PVE_NODE`, `PVE_STORAGE` (a directory) and `PVE_VMIDS` (the first
of three free ids) say what may be used there. Nothing changes on it unless `PVE_DESTRUCTIVE=1`. Must not hold a case.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.pvesim.direct import Direct, Reply
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts

_TASK_LIMIT_S = 60.0
Send = Callable[[str, str, Mapping[str, Any]], Awaitable[Reply]]


@dataclass
class Caller:
    """Asks; `node`, `storage` (type dir) and three free ids from `vmid` on are what cases may use."""

    send: Send
    anonymous: Send
    node: str
    storage: str
    vmid: int

    async def ask(self, method: str, path: str, **params: Any) -> Reply:
        """One request; `{node}` and `{storage}` in the path are filled in, `__` in a name stands for `-`."""
        filled = path.replace("{node}", self.node).replace("{storage}", self.storage)
        return await self.send(method, filled, {name.replace("__", "-"): value for name, value in params.items()})

    async def finish(self, reply: Reply) -> str:
        """The exit status of the task that a reply started."""
        async with asyncio.timeout(_TASK_LIMIT_S):
            while True:
                status = (await self.ask("GET", f"/nodes/{{node}}/tasks/{reply.data}/status")).data
                if status["status"] == "stopped":
                    exitstatus: str = status["exitstatus"]
                    return exitstatus
                await asyncio.sleep(0.2)


def simulated() -> Caller:
    """pvesim's three hosts."""
    world = three_hosts()
    known, unknown = Direct(world, ROOT_TOKEN, ROOT_SECRET), Direct(world, ROOT_TOKEN, "wrong")

    def sender(caller: Direct) -> Send:
        async def send(method: str, path: str, params: Mapping[str, Any]) -> Reply:
            return await caller.request(method, path, **params)

        return send

    return Caller(sender(known), sender(unknown), "pve1", "local", 900)


def real(env: Mapping[str, str]) -> tuple[Caller, httpx.AsyncClient]:
    """The host that the environment names, and the client to be closed. KeyError names a missing variable."""
    insecure = env.get("PVE_INSECURE") == "1"
    verify = False if insecure else ssl.create_default_context(cafile=env.get("PVE_CA_FILE"))
    client = httpx.AsyncClient(base_url=f"{env['PVE_URL'].rstrip('/')}/api2/json", verify=verify, timeout=40)

    def sender(token: str) -> Send:
        async def send(method: str, path: str, params: Mapping[str, Any]) -> Reply:
            by_query = method in ("GET", "DELETE")
            answer = await client.request(
                method, path, headers={"Authorization": f"PVEAPIToken={token}"},
                params=dict(params) if by_query else None, data=None if by_query else dict(params),
            )  # fmt: skip
            return parsed(answer)

        return send

    token = env["PVE_TOKEN"]
    caller = Caller(
        sender(token), sender(f"{token.partition('=')[0]}=wrong"), env["PVE_NODE"], env["PVE_STORAGE"],
        int(env.get("PVE_VMIDS", "999999900")),
    )  # fmt: skip
    return caller, client


def parsed(answer: httpx.Response) -> Reply:
    """An answer taken apart."""
    reason = answer.reason_phrase
    try:
        body = answer.json()
    except ValueError:
        return Reply(answer.status_code, reason, raw=answer.content)
    return Reply(
        answer.status_code, reason, body.get("data"), body.get("message", ""), body.get("errors", {}), answer.content
    )
