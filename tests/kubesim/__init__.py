"""A small Kubernetes API server for tests: real HTTP, real semantics where the callers' rules depend on them.

Own work rather than `kmock` (0.8), which answers create, read, patch and watch but has no resource versions, hence no
conflicts, no watch from a version, no 410 and no bookmarks, and those are what kubekit's promises are about.

Generic for any group, version and resource: create, get, list (selectors, pages), watch (from a version, bookmarks,
410), update, merge, JSON and strategic patches, delete with preconditions and finalizers, the status sub-resource.
Not simulated: admission, authorisation (a fault rule answers 403 where a test wants that), field ownership, quotas,
defaulting, garbage collection.

    sim = KubeSim([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-11"}}])
    url = await sim.start()          # in the test's process; `python -m tests.kubesim` runs it as its own
    sim.faults.add(Rule(verb="patch", path="*/nodes/*", action=cut_after()))
    await sim.aclose()

`store` holds the objects, `api` answers requests without knowing HTTP, `cluster` adds faults and the log; `server` is
the HTTP door and `transport` the one without sockets, for virtual time.
"""

from tests.kubesim.cluster import Cluster
from tests.kubesim.faults import Rule, answer, cut_after, cut_before, delay
from tests.kubesim.server import KubeSim
from tests.kubesim.transport import SimTransport, in_process

__all__ = [
    "Cluster",
    "KubeSim",
    "Rule",
    "SimTransport",
    "answer",
    "cut_after",
    "cut_before",
    "delay",
    "in_process",
]
