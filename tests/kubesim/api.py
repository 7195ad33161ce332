"""Requests answered from the store, without HTTP: what the aiohttp door, or a test's own door, calls."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.kubesim.patching import BadPatch, json_patch, merge_patch, strategic_patch
from tests.kubesim.problems import Refusal, expired
from tests.kubesim.resources import Target, parse_path
from tests.kubesim.selectors import Matches, selector
from tests.kubesim.store import Change, Object, Store

PATCHES = {
    "application/merge-patch+json": merge_patch,
    "application/json-patch+json": json_patch,
    "application/strategic-merge-patch+json": strategic_patch,
}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Request:
    """One request; `body` is decoded JSON or None."""

    method: str
    path: str
    params: Mapping[str, str]
    body: Any = None
    content_type: str = "application/json"

    @property
    def verb(self) -> str:
        """Kubernetes' word for it."""
        if self.method in VERBS:
            return VERBS[self.method]
        if self.params.get("watch") in ("true", "1"):
            return "watch"
        target = parse_path(self.path)
        return "list" if target is not None and target.name is None else "get"


class Cut(Exception):
    """The connection breaks here: no answer, or no more of it."""


class WatchControl:
    """The handle by which a running watch is woken, ended or cut from outside."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self._state: Literal["open", "ended", "cut"] = "open"

    def open(self) -> bool:
        """Whether to go on; raises Cut."""
        if self._state == "cut":
            raise Cut
        return self._state == "open"

    def end(self) -> None:
        self._state = "ended"
        self.woken.set()

    def cut(self) -> None:
        self._state = "cut"
        self.woken.set()


class Api:
    """Answers requests; `bookmark_s` is how often a silent watch is sent a bookmark."""

    def __init__(self, store: Store, *, bookmark_s: float = 60) -> None:
        self.store = store
        self._bookmark_s = bookmark_s
        self._pages: dict[str, list[Object]] = {}

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and JSON value for any request but a watch."""
        if request.path in ("/healthz", "/livez", "/readyz"):
            return 200, "ok"
        if request.path == "/version":
            return 200, {"major": "1", "minor": "37", "gitVersion": "v1.37.0", "platform": "linux/amd64"}
        target = parse_path(request.path)
        try:
            if target is None:
                raise Refusal(404, "the server could not find the requested resource")
            if target.subresource not in ("", "status"):
                raise Refusal(404, "the server could not find the requested resource")
            return self._dispatch(request, target)
        except Refusal as refusal:
            return refusal.status, refusal.body

    async def watch(self, request: Request, control: WatchControl) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until its `timeoutSeconds` are over or `control` ends it; raises Cut."""
        target = parse_path(request.path)
        assert target is not None
        resource, matches = target.resource, _selector(request, target)
        deadline = asyncio.get_running_loop().time() + float(request.params.get("timeoutSeconds") or 1800)
        stop_listening = self.store.listen(resource, control.woken.set)
        try:
            version = int(request.params.get("resourceVersion") or "0")
            if version == 0:
                version = self.store.version
                for item in self.store.items(resource, target.namespace):
                    if matches(item):
                        yield Change(0, "ADDED", item, None).line
            while control.open():
                control.woken.clear()
                changes = self.store.changes_since(resource, version)
                if changes is None:
                    refusal = expired(version, self.store.oldest(resource))
                    yield json.dumps({"type": "ERROR", "object": refusal.body}).encode() + b"\n"
                    return
                for change in changes:
                    version = change.version
                    if (line := _line_for(change, matches)) is not None:
                        yield line
                left_s = deadline - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return
                try:
                    async with asyncio.timeout(min(left_s, self._bookmark_s)):
                        await control.woken.wait()
                except TimeoutError:
                    version = max(version, self.store.version)
                    if request.params.get("allowWatchBookmarks") in ("true", "1"):
                        yield self._bookmark(target, version)
        finally:
            stop_listening()

    def forget_history(self) -> None:
        """Answer 410 to every watch and every page from before now."""
        self.store.forget_history()
        self._pages.clear()

    def _bookmark(self, target: Target, version: int) -> bytes:
        kind = self.store.kind(target.resource)
        mark = {"kind": kind, "apiVersion": target.api_version, "metadata": {"resourceVersion": str(version)}}
        return json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"

    def _dispatch(self, request: Request, target: Target) -> tuple[int, Any]:
        resource = target.resource
        if target.name is None:
            if request.method == "GET":
                return 200, self._list(request, target)
            if request.method == "POST":
                return 201, self.store.create(resource, _for_namespace(_object(request), target), target.api_version)
            raise Refusal(405, "the server does not allow this method on the requested resource")
        key = (target.namespace or "", target.name)
        match request.method:
            case "GET":
                return 200, self.store.get(resource, key)
            case "PUT":
                wanted = _object(request)
                if resource.plural == "leases" and not wanted.get("metadata", {}).get("resourceVersion"):
                    raise Refusal(422, "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
                return 200, self.store.update(resource, key, wanted, subresource=target.subresource)
            case "PATCH":
                return 200, self._patch(request, target, key)
            case "DELETE":
                preconditions = (request.body or {}).get("preconditions")
                left = self.store.delete(resource, key, preconditions)
                if left["metadata"].get("finalizers"):
                    return 200, left
                done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
                return 200, {
                    **done,
                    "details": {"name": target.name, "kind": resource.plural, "uid": left["metadata"]["uid"]},
                }
            case _:
                raise Refusal(405, "the server does not allow this method on the requested resource")

    def _patch(self, request: Request, target: Target, key: tuple[str, str]) -> Object:
        apply = PATCHES.get(request.content_type)
        if apply is None:
            raise Refusal(
                415, f"the body of the request was in an unknown format - accepted media types: {', '.join(PATCHES)}"
            )
        before = self.store.get(target.resource, key)
        try:
            wanted = apply(before, request.body)
        except BadPatch as error:
            raise Refusal(422 if error.unprocessable else 400, str(error)) from error
        if not isinstance(wanted, dict):
            raise Refusal(400, "the patch does not leave an object")
        return self.store.update(target.resource, key, wanted, subresource=target.subresource)

    def _list(self, request: Request, target: Target) -> dict[str, Any]:
        matches = _selector(request, target)
        limit = int(request.params.get("limit") or 0)
        token = request.params.get("continue")
        if token:
            version = int(json.loads(base64.b64decode(token))["rv"])
            if token not in self._pages:
                raise Refusal(410, "The provided continue parameter is too old to display a consistent list result.")
            items = self._pages.pop(token)
        else:
            version = self.store.version
            items = [item for item in self.store.items(target.resource, target.namespace) if matches(item)]
        metadata = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            items, rest = items[:limit], items[limit:]
            key = rest[0]["metadata"]
            following = base64.b64encode(
                json.dumps({"rv": version, "start": [key.get("namespace", ""), key["name"], len(self._pages)]}).encode()
            ).decode()
            self._pages[following] = rest
            metadata |= {"continue": following, "remainingItemCount": str(len(rest))}
        bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
        kind = f"{self.store.kind(target.resource)}List"
        return {"kind": kind, "apiVersion": target.api_version, "metadata": metadata, "items": bare}


def _object(request: Request) -> Object:
    if not isinstance(request.body, dict):
        raise Refusal(400, "the body is not an object")
    return request.body


def _for_namespace(obj: Object, target: Target) -> Object:
    if target.namespace is None:
        return obj
    metadata = obj.get("metadata") or {}
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise Refusal(400, "the namespace of the provided object does not match the namespace sent on the request")
    return {**obj, "metadata": {**metadata, "namespace": target.namespace}}


def _selector(request: Request, target: Target) -> Matches:
    matches = selector(request.params.get("labelSelector", ""), request.params.get("fieldSelector", ""))
    if target.namespace is None:
        return matches
    return lambda obj: obj["metadata"].get("namespace") == target.namespace and matches(obj)


def _line_for(change: Change, matches: Matches) -> bytes | None:
    """The event a watcher with this selector sees: an object may also come into or drop out of its sight."""
    now = matches(change.object)
    if change.type in ("ADDED", "DELETED") or change.before is None:
        return change.line if now else None
    before = matches(change.before)
    if now and before:
        return change.line
    if now or before:
        return Change(change.version, "ADDED" if now else "DELETED", change.object, None).line
    return None
