"""Objects, resource versions and the history that watches read; knows nothing of requests.

Stored objects are never changed in place: every write stores a new one, so that a snapshot, an event and the present
may share them. One counter gives resource versions to all resources, as etcd does.
"""

import json
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from appkit.clock import Clock, SystemClock
from tests.kubesim import validation
from tests.kubesim.problems import already_exists, conflict, invalid, not_found
from tests.kubesim.resources import CLUSTER_SCOPED, KINDS, WITHOUT_STATUS, Resource, resource_of_object

Object = dict[str, Any]
Key = tuple[str, str]  # namespace ("" when cluster-scoped), name

HISTORY = 20_000


@dataclass(frozen=True)
class Change:
    """One entry of the history; `before` is None for a creation."""

    version: int
    type: str
    object: Object
    before: Object | None

    @cached_property
    def line(self) -> bytes:
        return json.dumps({"type": self.type, "object": self.object}).encode() + b"\n"


class Store:
    """All objects of the cluster."""

    def __init__(self, *, seed: int = 0, clock: Clock | None = None) -> None:
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._history: dict[Resource, deque[Change]] = {}
        self._oldest: dict[Resource, int] = {}
        self._kinds: dict[Resource, str] = {Resource(*key): kind for key, kind in KINDS.items()}
        self._random = random.Random(seed)  # noqa: S311
        self._clock = clock or SystemClock()
        self._listeners: dict[Resource, list[Callable[[], None]]] = {}
        self.version = 1000

    def kind(self, resource: Resource) -> str:
        return self._kinds.get(resource) or resource.plural.removesuffix("s").capitalize()

    def find(self, resource: Resource, key: Key) -> Object | None:
        return self._objects.get(resource, {}).get(key)

    def get(self, resource: Resource, key: Key) -> Object:
        found = self.find(resource, key)
        if found is None:
            raise not_found(resource.label, key[1])
        return found

    def items(self, resource: Resource, namespace: str | None) -> list[Object]:
        found = self._objects.get(resource, {})
        return [found[key] for key in sorted(found) if namespace is None or key[0] == namespace]

    def resources(self) -> Iterator[Resource]:
        return iter(self._objects)

    def create(self, resource: Resource, obj: Object, api_version: str) -> Object:
        metadata = dict(obj.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._random.getrandbits(25):05x}"[-253:]
        key = (metadata.get("namespace") or "", metadata.get("name") or "")
        self._kinds.setdefault(resource, str(obj.get("kind") or ""))
        if self.find(resource, key) is not None:
            raise already_exists(resource.label, key[1])
        if metadata.pop("resourceVersion", None):
            raise invalid(resource.label, key[1], "metadata.resourceVersion: must not be set on objects to be created")
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self._now()
        metadata["generation"] = 1
        created = {"apiVersion": api_version, "kind": self.kind(resource), **obj, "metadata": metadata}
        validation.check(resource.label, created, None)
        return self._write(resource, key, "ADDED", created)

    def update(self, resource: Resource, key: Key, wanted: Object, *, subresource: str = "") -> Object:
        """Replace the object; a resource version or uid in `wanted` must be the present one."""
        before = self.get(resource, key)
        metadata, old = dict(wanted.get("metadata") or {}), before["metadata"]
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if version and version != old["resourceVersion"]:
            raise conflict(resource.label, key[1])
        if uid and uid != old["uid"]:
            raise conflict(
                resource.label,
                key[1],
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}",
            )
        if metadata.get("name", key[1]) != key[1]:
            raise invalid(resource.label, key[1], "metadata.name: field is immutable")
        has_status = resource.plural not in WITHOUT_STATUS
        if subresource == "status":
            if not has_status:
                raise not_found(resource.label, f"{key[1]}/status")
            after = {**before, "status": wanted.get("status") or {}}
        else:
            for fixed in ("namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation"):
                metadata.pop(fixed, None)
                if fixed in old:
                    metadata[fixed] = old[fixed]
            after = {**wanted, "apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": metadata}
            if has_status:
                after.pop("status", None)
                if "status" in before:
                    after["status"] = before["status"]
            if after.get("spec") != before.get("spec"):
                metadata["generation"] = old["generation"] + 1
            metadata["resourceVersion"] = old["resourceVersion"]
        if after == before:
            return before
        validation.check(resource.label, after, before)
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            return self._write(resource, key, "DELETED", after)
        return self._write(resource, key, "MODIFIED", after)

    def delete(self, resource: Resource, key: Key, preconditions: dict[str, str] | None = None) -> Object:
        """Delete the object, or mark it while it has finalizers; the object as it was left."""
        before = self.get(resource, key)
        for field, wanted in (preconditions or {}).items():
            if wanted and before["metadata"].get(field) != wanted:
                name = "UID" if field == "uid" else "ResourceVersion"
                held = before["metadata"].get(field)
                why = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {held}"
                raise conflict(resource.label, key[1], why)
        if not before["metadata"].get("finalizers"):
            return self._write(resource, key, "DELETED", before)
        if before["metadata"].get("deletionTimestamp"):
            return before
        metadata = {**before["metadata"], "deletionTimestamp": self._now(), "deletionGracePeriodSeconds": 0}
        return self._write(resource, key, "MODIFIED", {**before, "metadata": metadata})

    def apply(self, obj: Object) -> Object:
        """Create or replace an object as it stands, status included: what somebody outside the test did."""
        resource = resource_of_object(obj)
        self._kinds.setdefault(resource, obj["kind"])
        metadata = dict(obj["metadata"])
        if obj["kind"] not in CLUSTER_SCOPED:
            metadata.setdefault("namespace", "default")
        key = (metadata.get("namespace", ""), metadata["name"])
        before = self.find(resource, key)
        if before is None:
            metadata.pop("resourceVersion", None)
            return self.create(resource, {**obj, "metadata": metadata}, obj["apiVersion"])
        kept = {
            name: before["metadata"][name] for name in ("uid", "creationTimestamp", "generation", "resourceVersion")
        }
        after = {**obj, "metadata": {**metadata, **kept}}
        return before if after == before else self._write(resource, key, "MODIFIED", after)

    def changes_since(self, resource: Resource, version: int) -> list[Change] | None:
        """The changes after `version`, oldest first; None when some of them are forgotten."""
        if version < self._oldest.get(resource, 0):
            return None
        changes: list[Change] = []
        for change in reversed(self._history.get(resource, ())):
            if change.version <= version:
                break
            changes.append(change)
        return changes[::-1]

    def oldest(self, resource: Resource) -> int:
        return self._oldest.get(resource, 0)

    def forget_history(self) -> None:
        """Compact: a watch or a list page from before now is answered 410."""
        # Compaction concerns versions before the present one, so there must be a present one.
        self.version += 1
        for resource in self._objects:
            self._history[resource] = deque(maxlen=HISTORY)
            self._oldest[resource] = self.version

    def listen(self, resource: Resource, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change; the result ends that."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def _write(self, resource: Resource, key: Key, kind: str, obj: Object) -> Object:
        self.version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        objects = self._objects.setdefault(resource, {})
        before = objects.get(key)
        if kind == "DELETED":
            del objects[key]
        else:
            objects[key] = stored
        history = self._history.setdefault(resource, deque(maxlen=HISTORY))
        if len(history) == HISTORY:
            self._oldest[resource] = history[0].version
        history.append(Change(self.version, kind, stored, before))
        for listener in tuple(self._listeners.get(resource, ())):
            listener()
        return stored

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
