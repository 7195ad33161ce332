"""Initialises Nodes: the whole sequence for one Node, and which changes of a Node are worth running it.

Reads the informer's copy, writes at most a patch, a status patch and an event. Every write is decided on the very
object it changes, and the sequence can be taken up after any of them: what is still missing is seen on the Node
itself. Must not delete or taint Nodes (the life cycle's), and does not touch a Node whose providerID belongs to
another cloud.
"""

import json
from datetime import UTC, datetime
from typing import Any

from appkit.errors import NotFound, Pending, Unavailable
from appkit.logs import get_logger
from ccm.addresses import ProvidedIpError, addresses_for
from ccm.facts import Provider
from ccm.instances import InstanceFinder
from ccm.metrics import CcmMetrics
from ccm.outcomes import Ambiguous, Found, NoInstance, Outcome, Unreachable
from ccm.patches import address_patch, initial_patch, needs_init
from kubekit.events import EventRecorder
from kubekit.informer import Informer
from kubekit.nodes import PROVIDED_NODE_IP, NodeIdentity, addresses_of, identity_of, taints_of
from kubekit.objects import Object, resource_path
from kubekit.patches import patch_guarded
from kubekit.sessions import KubeSession
from pvekit.provider_id import is_proxmox

_log = get_logger(__name__)

_REASONS: dict[type[Outcome], str] = {
    NoInstance: "ProxmoxInstanceNotFound",
    Ambiguous: "ProxmoxAmbiguousMatch",
    Unreachable: "ProxmoxUnreachable",
}


class NotInitialised(Unavailable):
    """The Node keeps its taint for now; the reason was reported as an event. Raised to have it tried again."""


class NodeController:
    """`sync(name)` for the work queue, `changed(name)` for the informer."""

    def __init__(
        self,
        *,
        session: KubeSession,
        nodes: Informer,
        finder: InstanceFinder,
        events: EventRecorder,
        provider: Provider,
        metrics: CcmMetrics,
    ) -> None:
        self._session = session
        self._nodes = nodes
        self._finder = finder
        self._events = events
        self._provider: Provider = provider
        self._metrics = metrics
        self._seen: dict[str, str] = {}

    def changed(self, name: str) -> bool:
        """Whether the Node differs from when this was asked last, in anything `sync` looks at.

        A kubelet writes its Node's status several times a minute; without this each of them would cut a failing Node's
        back-off short.
        """
        node = self._nodes.get(name)
        if node is None:
            self._seen.pop(name, None)
            return False
        state = _looked_at(node)
        before, self._seen[name] = self._seen.get(name), state
        return state != before

    async def sync(self, name: str) -> None:
        """Bring one Node to where it should be. Raises what makes the queue try again later."""
        node = self._nodes.get(name)
        if node is None or node["metadata"].get("deletionTimestamp"):
            return
        identity = identity_of(node)
        if identity.provider_id and not is_proxmox(identity.provider_id):
            _log.debug("left alone: another cloud's Node", extra={"provider_id": identity.provider_id})
            return
        try:
            if needs_init(node):
                await self._initialise(node, identity)
            elif identity.provider_id and await self._write_addresses(node):
                self._synced(node)
        except ProvidedIpError as error:
            self._events.event(node, "Warning", "ProvidedNodeIPMismatch", str(error))
            if needs_init(node):
                raise NotInitialised(str(error)) from error
        except NotFound:
            _log.info("the Node was deleted meanwhile")

    async def _initialise(self, node: Object, identity: NodeIdentity) -> None:
        addresses_for(node)  # a wrong node IP is found before anything is asked or written
        outcome = await self._finder.find(identity)
        if not isinstance(outcome, Found):
            self._events.event(node, "Warning", _REASONS[type(outcome)], outcome.reason)
            raise NotInitialised(f"{_REASONS[type(outcome)]}: {outcome.reason}")
        facts = outcome.facts

        def decide(fresh: Object) -> dict[str, Any] | None:
            if not needs_init(fresh):
                return None
            if identity_of(fresh).provider_id != identity.provider_id:
                raise Pending("the Node got a providerID while its VM was looked up")
            return initial_patch(fresh, facts, self._provider)

        patched = await patch_guarded(self._session, _path(identity.name), decide, seen=node) or node
        self._metrics.untainted_after(_age_s(node, self._session.clock.now()))
        await self._write_addresses(patched)
        self._synced(patched)
        self._metrics.synced_after(_age_s(node, self._session.clock.now()))
        _log.info(
            "Node initialised",
            extra={"region": facts.region, "vmid": facts.vmid, "host": facts.host, "type": facts.instance_type},
        )

    async def _write_addresses(self, node: Object) -> bool:
        """Write the Node's addresses unless it has exactly those; whether they were written."""
        written = await patch_guarded(
            self._session,
            _path(node["metadata"]["name"]),
            lambda fresh: address_patch(fresh, addresses_for(fresh)),
            seen=node,
            subresource="status",
        )
        return written is not None

    def _synced(self, node: Object) -> None:
        self._events.event(node, "Normal", "Synced", "Node synced successfully")


def _path(name: str) -> str:
    return resource_path("v1", "nodes", name=name)


def _looked_at(node: Object) -> str:
    metadata, identity = node["metadata"], identity_of(node)
    return json.dumps(
        [
            identity.uid,
            identity.provider_id,
            identity.system_uuid,
            identity.instance_id_annotation,
            identity.region,
            (metadata.get("annotations") or {}).get(PROVIDED_NODE_IP),
            metadata.get("deletionTimestamp"),
            taints_of(node),
            addresses_of(node),
        ]
    )


def _age_s(node: Object, now: datetime) -> float:
    created = datetime.strptime(node["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return (now - created).total_seconds()
