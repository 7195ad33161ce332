"""Talk to a world without HTTP: requests as calls, answers taken apart. For tests of the simulator and for scripts.

Must not add behaviour; everything goes through `World.handle`.
"""

import gzip
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.pvesim.requests import SimRequest
from tests.pvesim.tasks import Task
from tests.pvesim.world import World


@dataclass(frozen=True)
class Reply:
    """An answer: `data`, and what went wrong."""

    status: int
    reason: str
    data: Any = None
    message: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""


class Direct:
    """One caller of one world. `user_agent` as pvekit's purposes set it."""

    def __init__(self, world: World, token: str, secret: str, *, node: str = "", user_agent: str = "test") -> None:
        self.world = world
        self._node = node
        self._headers = {"authorization": f"PVEAPIToken={token}={secret}", "user-agent": user_agent}

    @classmethod
    def by_ticket(cls, world: World, userid: str, *, node: str = "") -> "Direct":
        """A caller with a ticket instead of a token; root@pam's may what no token may."""
        caller = cls(world, "", "", node=node)
        ticket, csrf = world.authenticator.issue_ticket(
            userid, world.clock.time(), f"{world.rng.getrandbits(128):032x}"
        )
        del caller._headers["authorization"]
        caller._headers |= {"cookie": f"PVEAuthCookie={ticket}", "csrfpreventiontoken": csrf}
        return caller

    async def request(self, method: str, path: str, **params: Any) -> Reply:
        """Send; `__` in a parameter's name stands for `-`."""
        encoded = urlencode({name.replace("__", "-"): value for name, value in params.items()})
        headers = dict(self._headers)
        target, body = f"/api2/json{path}", b""
        if method in ("GET", "DELETE"):
            target += f"?{encoded}" if encoded else ""
        elif encoded:
            body = encoded.encode()
            headers["content-type"] = "application/x-www-form-urlencoded"
        answer = await self.world.handle(SimRequest(method, target, headers, body, self._node))
        raw = gzip.decompress(answer.body) if answer.headers.get("Content-Encoding") == "gzip" else answer.body
        if not raw.startswith(b"{"):
            return Reply(answer.status, answer.reason, raw=raw)
        parsed = json.loads(raw)
        return Reply(
            answer.status, answer.reason, parsed.get("data"), parsed.get("message", ""), parsed.get("errors", {}), raw
        )

    async def get(self, path: str, **params: Any) -> Reply:
        """GET."""
        return await self.request("GET", path, **params)

    async def post(self, path: str, **params: Any) -> Reply:
        """POST."""
        return await self.request("POST", path, **params)

    async def put(self, path: str, **params: Any) -> Reply:
        """PUT."""
        return await self.request("PUT", path, **params)

    async def delete(self, path: str, **params: Any) -> Reply:
        """DELETE; parameters go into the query."""
        return await self.request("DELETE", path, **params)

    async def finish(self, reply: Reply) -> Task:
        """The ended task of a reply that is a UPID."""
        task = self.world.tasks.by_upid[reply.data]
        await task.done.wait()
        return task
