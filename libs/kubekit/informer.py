"""A local copy of one resource, kept current by list and watch; the official asyncio half has none that survives.

List (in pages), then watch from its resource version. A watch that ends, or a connection that breaks, is taken up again
where it stopped. A version that the server forgot (410), an error event, or silence makes a new list, which is compared
with the copy, so that no change goes unreported, deletions included. Must not interpret objects and must not be changed
through: what it hands out is shared.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

from appkit.backoff import Backoff
from appkit.errors import Unavailable
from appkit.logs import get_logger
from kubekit.errors import KubeError, KubeGone, KubeUnavailable, KubeUnknownOutcome, KubeUnreachable
from kubekit.objects import Object, describe_path, format_key, key_of, version_of
from kubekit.sessions import WATCH_SILENCE_S, KubeSession
from kubekit.transport import Params

_log = get_logger(__name__)

PAGE = 500
# The server ends the watch after this time; it only bounds how long a connection lives.
WATCH_S = 290
# A watch that ends sooner was not one: the server, or a proxy before it, ends them at once.
LASTING_S = 1.0

_BACKOFF = Backoff(0.5, 2, 30)


class Informer:
    """The copy of the resource at `path` (a collection), as far as `params` (selectors) let see.

    Give `run()` to an `appkit.background.Background`. Handlers get keys (`name` or `namespace/name`) of objects that
    were added, changed or deleted, after the copy was updated; they must not wait, a work queue's `add` is the model.
    """

    def __init__(
        self, session: KubeSession, path: str, *, params: Params | None = None, backoff: Backoff = _BACKOFF
    ) -> None:
        self._session = session
        self._path = path
        self._params = dict(params or {})
        self._backoff = backoff
        self._objects: dict[str, dict[str, Any]] = {}
        self._version = ""
        self._confirmed_at: float | None = None
        self._synced = asyncio.Event()
        self._handlers: list[Callable[[str], None]] = []
        self._delays: Iterator[float] | None = None

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Call `handler(key)` for every change from now on; for objects already here, at once."""
        self._handlers.append(handler)
        for key in self._objects:
            handler(key)

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        """The object of that name in the copy, or None. Absence here is no proof before `wait_synced`."""
        return self._objects.get(format_key(name, namespace))

    def list(self) -> list[Object]:
        """Every object in the copy."""
        return list(self._objects.values())

    def age_s(self) -> float:
        """Seconds since the server last confirmed the copy (list, event, bookmark); infinite before the first list."""
        return float("inf") if self._confirmed_at is None else self._session.clock.monotonic() - self._confirmed_at

    async def wait_synced(self, timeout_s: float) -> None:
        """Wait for the first whole list; raises Unavailable when it does not come within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._synced.wait()
        except TimeoutError:
            raise Unavailable(
                f"no list of {describe_path(self._path)[0]} from the API server in {timeout_s} s"
            ) from None

    async def run(self) -> None:
        """Keep the copy current until cancelled. Errors of the API are logged and repeated with back-off."""
        listed = False
        while True:
            try:
                if not listed:
                    await self._relist()
                    listed = True
                await self._follow()
            except KubeGone:
                listed = False
                _log.info("resource version too old; listing again", extra={"path": self._path})
                # Paced, too: a server that forgets at once must not be listed in a tight loop.
                await self._pause()
            except KubeError as error:
                # A broken connection is taken up where it stopped; after any other answer nothing is certain.
                broken = isinstance(error, KubeUnknownOutcome | KubeUnreachable)
                listed = listed and broken and self.age_s() < WATCH_SILENCE_S
                _log.warning("watch interrupted: %s", error, extra={"path": self._path, "list_again": not listed})
                await self._pause(error.retry_after_s or 0 if isinstance(error, KubeUnavailable) else 0)

    async def _pause(self, at_least_s: float = 0) -> None:
        self._delays = self._delays or self._backoff.delays()
        await self._session.clock.sleep(max(next(self._delays), at_least_s))

    async def _relist(self) -> None:
        items: dict[str, dict[str, Any]] = {}
        params: dict[str, str | int | bool] = {**self._params, "limit": PAGE}
        while True:
            page = await self._session.request("GET", self._path, params=params)
            kind, api_version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion", "")
            for item in page.get("items") or []:
                # Items of a list come without these two; references and patches need them.
                item.setdefault("kind", kind)
                item.setdefault("apiVersion", api_version)
                items[key_of(item)] = _trimmed(item)
            following = page["metadata"].get("continue")
            if not following:
                break
            params["continue"] = following
        self._session.metrics.relists.labels(describe_path(self._path)[0]).inc()
        before, self._objects = self._objects, items
        self._confirm(version_of(page))
        self._synced.set()
        changed = [key for key, item in items.items() if _state(before.get(key)) != _state(item)]
        for key in [*changed, *(key for key in before if key not in items)]:
            self._notify(key)

    async def _follow(self) -> None:
        params: dict[str, str | int | bool] = {
            **self._params,
            "resourceVersion": self._version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": WATCH_S,
        }
        started = self._session.clock.monotonic()
        try:
            async with aclosing(self._session.watch(self._path, params)) as events:
                async for event in events:
                    self._apply(event)
        finally:
            lasted = self._session.clock.monotonic() - started >= LASTING_S
            if lasted:
                # Only a watch that lives ends the back-off: lists may go well for ever while every watch is refused.
                self._delays = None
        if not lasted:
            await self._pause()

    def _apply(self, event: dict[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "BOOKMARK":
            self._confirm(version_of(item))
            return
        key = key_of(item)
        if kind == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = _trimmed(item)
        self._confirm(version_of(item))
        self._notify(key)

    def _confirm(self, version: str) -> None:
        self._version = version or self._version
        self._confirmed_at = self._session.clock.monotonic()

    def _notify(self, key: str) -> None:
        for handler in self._handlers:
            handler(key)


def _state(item: Object | None) -> tuple[str, str] | None:
    # The uid as well: versions of an object and of its successor of the same name are never compared.
    return None if item is None else (str(item["metadata"].get("uid", "")), version_of(item))


def _trimmed(item: dict[str, Any]) -> dict[str, Any]:
    """`item` without its field ownership, which nobody here reads and which is half of a Node's size."""
    item["metadata"].pop("managedFields", None)
    return item
