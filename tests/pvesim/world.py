"""The simulated cluster: state, and the one door `handle` through which every request goes.

In the order of the real servers: HTTP rules, authentication, path, permission, proxying to the node, parameter checks,
handler. Must not hold a rule about a single call; those are in the handler modules, gathered in `routes.py`.
"""

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any

from tests.pvesim.access import Access, Identity
from tests.pvesim.answers import Answers
from tests.pvesim.auth import Authenticator
from tests.pvesim.blocks import BlockBackend, NoBlocks
from tests.pvesim.broadcast import Broadcasts
from tests.pvesim.call import Call, Handler
from tests.pvesim.clock import DEFAULT_EPOCH, SimClock
from tests.pvesim.errors import ApiError, Cut, param_errors
from tests.pvesim.faults import Action, Faults
from tests.pvesim.ha import HaState
from tests.pvesim.hamanager import HaManager
from tests.pvesim.log import Entry, RequestLog, kind_of
from tests.pvesim.nodes import Nodes
from tests.pvesim.permissions import PermissionChecker
from tests.pvesim.profile import INSTANT, Profile
from tests.pvesim.release import LATEST, Release
from tests.pvesim.requests import SimRequest, SimResponse, parse_params, split_path
from tests.pvesim.router import Match, Router
from tests.pvesim.routes import ROUTES
from tests.pvesim.saving import dump
from tests.pvesim.schema import ApiSchema, load
from tests.pvesim.state import Vm
from tests.pvesim.storage import Storages
from tests.pvesim.tasks import Tasks

# What the proxying server waits for a synchronous answer before it gives up (596); the work goes on.
PROXY_TIMEOUT_S = 30.0


class World:
    """One Proxmox VE cluster, or a single node without a cluster (`cluster_name` "")."""

    def __init__(
        self,
        *,
        region: str = "cluster-1",
        cluster_name: str = "",
        seed: int = 1,
        profile: Profile = INSTANT,
        blocks: BlockBackend | None = None,
        epoch: int = DEFAULT_EPOCH,
        clock_scale: float = 1.0,
        release: Release = LATEST,
    ) -> None:
        self.region = region
        self.cluster_name = cluster_name
        self.release = release
        self.rng = random.Random(seed)  # noqa: S311 - a reproducible world, no secret
        self.profile = profile
        self.clock = SimClock(epoch, clock_scale)
        self.blocks: BlockBackend = blocks or NoBlocks()
        self.nodes = Nodes(self.clock)
        self.access = Access(release)
        self.permissions = PermissionChecker(self.access, release)
        self.authenticator = Authenticator(self.access)
        self.storages = Storages(self.clock, self.blocks, profile)
        self.vms: dict[int, Vm] = {}
        self.tasks = Tasks(self.clock, profile, self.rng)
        self.faults = Faults()
        self.log = RequestLog()
        self.ha = HaState()
        self.ha_manager = HaManager(self)
        # Replication jobs by id.
        self.replication: dict[str, dict[str, Any]] = {}
        self.options: dict[str, Any] = {"mac_prefix": "BC:24:11"}
        # Temporary path -> bytes of a file that came with a request.
        self.uploads: dict[str, bytes] = {}
        self.broadcasts = Broadcasts(self)
        self._router = Router(ApiSchema(load()), ROUTES)
        self._answers = Answers(self.rng)
        self._working: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, blocks: BlockBackend | None = None) -> "World":
        """A world from plain data (the world file's shape, see README.md)."""
        from tests.pvesim.worldfile import build_world

        return build_world(raw, blocks=blocks)

    def dump(self) -> dict[str, Any]:
        """The state as a world file, which `from_dict` reads (see saving.py for what is not in it)."""
        return dump(self)

    @property
    def quorate(self) -> bool:
        """Whether the hosts that clients talk to are in the majority."""
        return self.storages.quorate

    @quorate.setter
    def quorate(self, value: bool) -> None:
        self.storages.quorate = value

    def count(self, kind: Any = None, *, since: int = 0) -> int:
        """How many requests there were, of one kind or of all."""
        return self.log.count(kind, since=since)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that the cluster does by itself; ended with the world."""
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def handle(self, request: SimRequest) -> SimResponse:
        """Answer one request. Raises Cut when the connection is to be dropped instead."""
        self.broadcasts.tick()
        path = "/" + "/".join(split_raw(request.raw_path))
        entry = Entry(
            len(self.log), self.clock.monotonic(), kind_of(request.method, path, request.header("user-agent")),
            request.method, path, {},
        )  # fmt: skip
        self.log.add(entry)
        extjs = request.raw_path.startswith("/api2/extjs/")
        gzip_ok = "gzip" in request.header("accept-encoding")
        try:
            params = self._spooled(parse_params(request))
            entry.params = {k: str(v) for k, v in params.items() if k not in ("password", "cipassword", "tmpfilename")}
            actions = self.faults.actions_for(request.method, path, params)
            response = await self._with_faults(request, params, actions, entry, extjs=extjs, gzip_ok=gzip_ok)
        except ApiError as error:
            response = await self._refuse(error, extjs=extjs)
        entry.status, entry.reason = response.status, response.reason
        return response

    def _spooled(self, params: dict[str, Any]) -> dict[str, Any]:
        """An uploaded file is written to a temporary path before anything else looks at the request."""
        data = params.get("tmpfilename")
        if isinstance(data, bytes):
            path = f"/var/tmp/pveupload-{self.rng.getrandbits(128):032x}"
            self.uploads[path] = data
            params["tmpfilename"] = path
        return params

    async def _with_faults(
        self,
        request: SimRequest,
        params: dict[str, Any],
        actions: list[Action],
        entry: Entry,
        *,
        extjs: bool,
        gzip_ok: bool,
    ) -> SimResponse:
        task_fault: Action | None = None
        replaced: Action | None = None
        cut_after = False
        for action in actions:
            match action.kind:
                case "delay":
                    await self.clock.sleep(action.seconds)
                case "cut_before":
                    raise Cut("before the effect")
                case "answer" if not action.after:
                    return self._answers.raw(action.status, action.reason, action.body, now=self.clock.time())
                case "answer":
                    replaced = action
                case "cut_after":
                    cut_after = True
                case "task_fails":
                    task_fault = action
        try:
            data = await self._dispatch(request, params, entry, task_fault)
            response = self._answers.ok(data, now=self.clock.time(), extjs=extjs, accept_gzip=gzip_ok)
        except ApiError as error:
            response = await self._refuse(error, extjs=extjs)
        if cut_after:
            raise Cut("after the effect")
        if replaced is not None:
            return self._answers.raw(replaced.status, replaced.reason, replaced.body, now=self.clock.time())
        return response

    async def _refuse(self, error: ApiError, *, extjs: bool) -> SimResponse:
        if error.status == 401:
            await self.clock.sleep(self.profile.auth_failure_s)
        return self._answers.error(error, now=self.clock.time(), extjs=extjs)

    async def _dispatch(
        self, request: SimRequest, params: dict[str, Any], entry: Entry, task_fault: Action | None
    ) -> Any:
        _, segments = split_path(request.raw_path)
        match = self._router.match(request.method, segments)
        path = "/" + "/".join(segments)
        world_readable = match is not None and match.endpoint.permissions.get("user") == "world"
        who = Identity("") if world_readable else self.authenticator.identify(request, self.clock.time())
        entry.auth_id = who.auth_id
        if match is None:
            raise ApiError(501, f"Method '{request.method} {path}' not implemented", newline=False)
        duplicates = {k for k, v in match.path_params.items() if k in params and str(params[k]) != v}
        if duplicates:
            text = "duplicate parameter (already defined in URI) with conflicting values!"
            raise param_errors(dict.fromkeys(duplicates, text))
        merged = {**params, **match.path_params}
        try:
            self.permissions.check_endpoint(who, match.endpoint.permissions, merged)
        except ApiError as error:
            if not match.endpoint.template.endswith("/upload"):
                raise
            # Uploads are refused while the credentials are checked: no body, and the same delay.
            await self.clock.sleep(self.profile.auth_failure_s)
            raise ApiError(error.status, error.message, bare=True) from error
        node = self.nodes.first.name if not request.node else request.node
        if match.endpoint.proxied and merged["node"] not in ("localhost", node):
            node = merged["node"]
            await self.nodes.proxy_to(node, protected=match.endpoint.protected, clustered=bool(self.cluster_name))
        return await self._work(match, who, merged, node, task_fault)

    async def _work(
        self, match: Match, who: Identity, params: dict[str, Any], node: str, task_fault: Action | None
    ) -> Any:
        """Run the handler as a task of its own: a client that goes away, or 30 s that pass, do not stop it."""
        work = asyncio.create_task(self._run_handler(match, who, params, node, task_fault))
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        await asyncio.wait({work}, timeout=self.clock.real_s(PROXY_TIMEOUT_S))
        if not work.done():
            work.add_done_callback(_swallow)
            raise ApiError(596, "Connection timed out", bare=True)
        return work.result()

    async def _run_handler(
        self, match: Match, who: Identity, params: dict[str, Any], node: str, task_fault: Action | None
    ) -> Any:
        endpoint, handler = match.endpoint, match.handler
        if handler is None:
            raise ApiError(501, f"pvesim does not simulate {endpoint.method} {endpoint.template}")
        if endpoint.method == "GET":
            await self.clock.sleep(self.profile.read_s)
        try:
            return await self._checked(match, handler, who, params, node, task_fault)
        except OSError as error:
            # The block back end could not; the storage layer's own words.
            raise ApiError(500, str(error)) from error

    async def _checked(
        self,
        match: Match,
        handler: Handler,
        who: Identity,
        params: dict[str, Any],
        node: str,
        task_fault: Action | None,
    ) -> Any:
        endpoint = match.endpoint
        checked = endpoint.normalize(params)
        if errors := endpoint.check(checked):
            raise param_errors(errors)
        call = Call(self, who, endpoint, {k: str(v) for k, v in checked.items()}, node, task_fault)
        host = self.nodes.find(node)
        if not endpoint.protected or host is None:
            return await handler(call)
        async with host.workers:
            return await handler(call)

    async def aclose(self) -> None:
        """Stop everything that still runs in this world and clean up behind its block back end."""
        for work in list(self._working):
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self.tasks.aclose()
        await self.blocks.aclose()


def split_raw(raw_path: str) -> list[str]:
    """The path's segments below /api2/<format>, still encoded, for log and fault rules."""
    parts = [part for part in raw_path.split("/") if part]
    return parts[2:] if parts[:1] == ["api2"] else parts


def _swallow(work: asyncio.Task[Any]) -> None:
    # Nobody waits for this answer any more; an error in it is nobody's.
    if not work.cancelled():
        work.exception()
