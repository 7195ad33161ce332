"""Leadership on virtual time; what happens between processes is in tests/sim/kubekit."""

import asyncio
from typing import Any

import pytest

from kubekit.lease import LeaseHolder, LeaseLost, process_identity
from tests.kubesim import Cluster, Rule, answer, cut_after, delay, in_process

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    """A process that leads whenever it can, until it is told to stop."""

    def __init__(self, cluster: Cluster, identity: str) -> None:
        session, self.transport = in_process(cluster)
        self.holder = LeaseHolder(session, "kube-system", "ccm", identity)
        self.stop = asyncio.Event()
        self.led_from: float | None = None
        self.led_until: float | None = None
        self.task = asyncio.create_task(self.holder.lead(self.body, self.stop))

    async def body(self) -> None:
        self.led_from = now()
        try:
            await self.stop.wait()
        finally:
            self.led_until = now()

    def leads(self) -> bool:
        return self.led_from is not None and self.led_until is None

    def die(self) -> None:
        """No more requests get out, not even the release."""
        self.transport.reachable = False
        self.task.cancel()


def spec(cluster: Cluster) -> dict[str, Any]:
    lease = cluster.get("leases", "ccm", namespace="kube-system", group="coordination.k8s.io")
    assert lease is not None
    value: dict[str, Any] = lease["spec"]
    return value


async def test_the_first_leads_at_once_and_renews_every_two_seconds() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(61)
    assert a.led_from == pytest.approx(0)
    assert spec(cluster)["holderIdentity"] == "a"
    assert spec(cluster)["leaseTransitions"] == 0
    assert spec(cluster)["leaseDurationSeconds"] == 15
    assert cluster.count("update", "leases.coordination.k8s.io") == 30
    assert cluster.count("get") == 1
    a.stop.set()
    await a.task


async def test_a_clean_exit_hands_over_within_a_retry() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(10)
    b = Candidate(cluster, "b")
    await asyncio.sleep(10.5)
    assert not b.leads()
    a.stop.set()
    await a.task
    assert spec(cluster)["holderIdentity"] == ""
    await asyncio.sleep(2.1)
    assert b.led_from is not None
    assert b.led_from - (a.led_until or 0) <= 2.1
    assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("b", 1)
    b.stop.set()
    await b.task


async def test_a_death_is_waited_out_by_local_time() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    b = Candidate(cluster, "b")
    await asyncio.sleep(20.5)
    a.die()
    died = now()
    await asyncio.sleep(30)
    assert b.led_from is not None
    assert 13 <= b.led_from - died <= 18
    b.stop.set()
    await asyncio.gather(a.task, b.task, return_exceptions=True)


async def test_times_written_in_the_lease_are_not_believed() -> None:
    cluster = Cluster()
    old = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": old}
    cluster.apply({**lease, "metadata": {"name": "ccm", "namespace": "kube-system"}})
    b = Candidate(cluster, "b")
    await asyncio.sleep(14)
    assert not b.leads()
    await asyncio.sleep(4)
    assert b.leads()
    b.stop.set()
    await b.task


async def test_cut_off_it_gives_up_before_another_may_take_it() -> None:
    cluster = Cluster()
    a, b = Candidate(cluster, "a"), Candidate(cluster, "b")
    await asyncio.sleep(21)
    a.transport.reachable = False
    await asyncio.sleep(30)
    assert a.led_until is not None
    assert b.led_from is not None
    assert a.led_until <= 31
    assert a.led_until < b.led_from
    with pytest.raises(LeaseLost, match="no connection"):
        await a.task
    b.stop.set()
    await b.task


async def test_requests_that_hang_are_as_good_as_none() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(21)
    cluster.faults.add(Rule(delay(3600), times=0))
    with pytest.raises(LeaseLost):
        await a.task
    assert a.led_until is not None
    assert 29 <= a.led_until <= 31
    assert now() < 40  # the release, too, has a time-out


async def test_short_faults_are_survived() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(9)
    cluster.faults.add(Rule(answer(500), times=2))
    cluster.faults.add(Rule(cut_after(), verb="update", nth=4, times=1))
    cluster.faults.add(Rule(delay(4), verb="update", nth=6, times=1))
    await asyncio.sleep(60)
    assert a.led_until is None
    assert spec(cluster)["leaseTransitions"] == 0
    a.stop.set()
    await a.task
    assert spec(cluster)["holderIdentity"] == ""


async def test_a_lost_answer_to_the_first_taking() -> None:
    cluster = Cluster()
    cluster.faults.add(Rule(cut_after(), verb="create"))
    a = Candidate(cluster, "a")
    await asyncio.sleep(5)
    assert a.led_from is not None
    a.stop.set()
    await a.task


async def test_seeing_another_hold_it_ends_leadership_at_once() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(9)
    lease = cluster.get("leases", "ccm", namespace="kube-system", group="coordination.k8s.io")
    assert lease is not None
    cluster.apply({**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
    with pytest.raises(LeaseLost, match="another holds it"):
        await a.task
    assert now() <= 11
    assert spec(cluster)["holderIdentity"] == "thief"


async def test_a_deleted_lease_is_made_again() -> None:
    cluster = Cluster()
    a = Candidate(cluster, "a")
    await asyncio.sleep(9)
    cluster.delete("leases", "ccm", namespace="kube-system", group="coordination.k8s.io")
    await asyncio.sleep(5)
    assert a.led_until is None
    assert spec(cluster)["holderIdentity"] == "a"
    a.stop.set()
    await a.task


async def test_stopped_while_standing_by_it_never_leads() -> None:
    cluster = Cluster()
    a, b = Candidate(cluster, "a"), Candidate(cluster, "b")
    await asyncio.sleep(5)
    b.stop.set()
    await b.task
    assert b.led_from is None
    a.stop.set()
    await a.task


async def test_the_bodys_error_is_raised_after_the_release() -> None:
    cluster = Cluster()
    session, _ = in_process(cluster)

    async def body() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await LeaseHolder(session, "kube-system", "ccm", "a").lead(body, asyncio.Event())
    assert spec(cluster)["holderIdentity"] == ""


async def test_it_is_free_only_after_the_body_has_ended() -> None:
    cluster = Cluster()
    session, _ = in_process(cluster)
    held_at_end: list[str] = []

    async def body() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(3)
            held_at_end.append(spec(cluster)["holderIdentity"])

    task = asyncio.create_task(LeaseHolder(session, "kube-system", "ccm", "a").lead(body, asyncio.Event()))
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held_at_end == ["a"]
    assert spec(cluster)["holderIdentity"] == ""


def test_senseless_times_are_refused_and_identities_differ() -> None:
    session, _ = in_process(Cluster())
    with pytest.raises(ValueError, match="lease_s > renew_s > retry_s"):
        LeaseHolder(session, "n", "l", "a", lease_s=10, renew_s=10)
    assert process_identity() != process_identity()
