"""The cases on pvesim, and on a real Proxmox VE where `PVE_URL` names one (`callers.py`)."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.callers import Caller, real, simulated
from tests.contract.cases import READING, WRITING, Case
from tests.pvesim.server import SimServer
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts

on_real_host = pytest.mark.skipif("PVE_URL" not in os.environ, reason="PVE_URL names no Proxmox VE")
destructive = pytest.mark.skipif(
    os.environ.get("PVE_DESTRUCTIVE") != "1", reason="PVE_DESTRUCTIVE=1 allows changes to the Proxmox VE of PVE_URL"
)


def _name(case: Case) -> str:
    return str(getattr(case, "__name__", case))


@pytest.mark.looptime
@pytest.mark.parametrize("case", [*READING, *WRITING], ids=_name)
async def test_on_pvesim(case: Case) -> None:
    await case(simulated())


async def test_the_way_to_a_real_host_works_over_https(tmp_path: Path) -> None:
    server = SimServer(three_hosts(), tmp_path)
    await server.start()
    env = {
        "PVE_URL": server.urls[0], "PVE_CA_FILE": str(server.ca_file), "PVE_TOKEN": f"{ROOT_TOKEN}={ROOT_SECRET}",
        "PVE_NODE": "pve1", "PVE_STORAGE": "local",
    }  # fmt: skip
    caller, client = real(env)
    try:
        async with client:
            for case in (*READING, *WRITING):
                await case(caller)
    finally:
        await server.aclose()
    assert 999999900 not in server.world.vms


@pytest.fixture
async def host() -> AsyncIterator[Caller]:
    caller, client = real(os.environ)
    async with client:
        yield caller


@on_real_host
@pytest.mark.parametrize("case", READING, ids=_name)
async def test_reading_on_a_real_host(case: Case, host: Caller) -> None:
    await case(host)


@on_real_host
@destructive
@pytest.mark.parametrize("case", WRITING, ids=_name)
async def test_writing_on_a_real_host(case: Case, host: Caller) -> None:
    await case(host)
