"""Leadership between real processes: hand-over on exit and on death."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kubesim import KubeSim
from tests.sim.kubekit.waiting import until

CANDIDATE = """
import asyncio, sys
from appkit.run import run_service
from kubekit.lease import LeaseHolder
from kubekit.sessions import KubeSettings, connect

async def main(stop):
    session = await connect(KubeSettings(server=sys.argv[1]))
    holder = LeaseHolder(session, "kube-system", "ccm", sys.argv[2], lease_s=2, renew_s=1.2, retry_s=0.1)
    await holder.lead(stop.wait, stop)
    await session.aclose()

sys.exit(run_service(main))
"""


def holder_of(sim: KubeSim) -> str:
    lease = sim.get("leases", "ccm", namespace="kube-system", group="coordination.k8s.io")
    return lease["spec"]["holderIdentity"] if lease else ""


@contextmanager
def candidate(sim: KubeSim, identity: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-X", "dev", "-c", CANDIDATE, sim.url, identity]) as child:
        try:
            yield child
        finally:
            child.kill()


async def test_hand_over_on_exit_and_on_death(sim: KubeSim) -> None:
    loop = asyncio.get_running_loop()
    with candidate(sim, "a") as first:
        await until(lambda: holder_of(sim) == "a")
        with candidate(sim, "b") as second:
            await until(lambda: sim.count("get", "leases.coordination.k8s.io") > 2)
            first.send_signal(signal.SIGTERM)
            started = loop.time()
            await until(lambda: holder_of(sim) == "b")
            assert loop.time() - started < 1.5, "a clean exit must not be waited out"
            assert await asyncio.to_thread(first.wait, 5) == 0
            with candidate(sim, "c"):
                seen = sim.count("get", "leases.coordination.k8s.io")
                await until(lambda: sim.count("get", "leases.coordination.k8s.io") > seen)
                second.kill()
                started = loop.time()
                await until(lambda: holder_of(sim) == "c")
                assert 1 < loop.time() - started < 5


async def test_a_holder_that_lost_it_exits_with_an_error(sim: KubeSim) -> None:
    with candidate(sim, "a") as first:
        await until(lambda: holder_of(sim) == "a")
        lease = sim.get("leases", "ccm", namespace="kube-system", group="coordination.k8s.io")
        assert lease is not None
        sim.apply({**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
        assert await asyncio.to_thread(first.wait, 5) == 1
        assert holder_of(sim) == "thief"
