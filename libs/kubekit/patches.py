"""Changes to an object that were decided on exactly the state they are applied to.

A merge patch that carries resourceVersion and uid: the server refuses it when the object changed or was replaced, and
then the decision is made anew on a fresh read. Must not be given a fixed patch: the decision is a function of the
object. That is also what makes a lost answer harmless: the next read shows whether the patch was done.
"""

import itertools
from collections.abc import Callable
from typing import Any

from appkit.backoff import Backoff
from kubekit.errors import KubeConflict, KubeNotFound
from kubekit.objects import Object, uid_of, version_of
from kubekit.sessions import MERGE_PATCH, KubeSession

ATTEMPTS = 5
_BACKOFF = Backoff(0.05, 2, 0.5, jitter=0.5)

Decide = Callable[[Object], dict[str, Any] | None]


async def patch_guarded(
    session: KubeSession, path: str, decide: Decide, *, seen: Object | None = None, uid: str = "", subresource: str = ""
) -> Object | None:
    """Apply `decide(object)` (a merge patch; None: nothing to do) to the object at `path`; the object as it is then.

    `seen` is the caller's own copy and saves the first read; it may be old, the server will say. With `uid` (or that of
    `seen`) an object of the same name but another uid is none of the caller's: KubeNotFound. The result is None when
    `decide` saw nothing to do on the first look. Raises KubeConflict when the object keeps changing, KubeUnknownOutcome
    when the answer was lost, and kubekit's other errors.
    """
    uid = uid or (uid_of(seen) if seen is not None else "")
    target = f"{path}/{subresource}" if subresource else path
    delays = itertools.islice(_BACKOFF.delays(), ATTEMPTS - 1)
    current, first = seen, True
    while True:
        if current is None:
            current = await session.request("GET", path)
        if uid and uid_of(current) != uid:
            raise KubeNotFound(f"{path} is another object now (uid {uid_of(current)}, not {uid})")
        patch = decide(current)
        if patch is None:
            return None if first else current
        guard = {"resourceVersion": version_of(current), "uid": uid_of(current)}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
        try:
            return await session.request("PATCH", target, body=body, content_type=MERGE_PATCH)
        except KubeConflict:
            delay_s = next(delays, None)
            if delay_s is None:
                raise
        await session.clock.sleep(delay_s)
        current, first = None, False
