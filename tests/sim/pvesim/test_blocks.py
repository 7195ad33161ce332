"""Plugged disks as files and as loop devices: what a guest sees, and that nothing is left behind."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.pvesim.hostblocks import LoopDevices, SparseFiles
from tests.pvesim.transport import SimTransport
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, three_hosts

WWN = "0x5056432d49443031"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="loop devices need root"
)


def _client(world: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=SimTransport(world),  # type: ignore[arg-type]
        base_url="https://pve1:8006/api2/json",
        headers={"Authorization": f"PVEAPIToken={CSI_TOKEN}={CSI_SECRET}"},
    )


async def _attach(client: httpx.AsyncClient, vmid: int = 111, slot: str = "scsi3") -> str:
    answer = await client.post(
        "/nodes/pve1/storage/local/content", data={"vmid": "9999", "filename": "vm-9999-pvc-1.raw", "size": "64M"}
    )
    volid: str = answer.json()["data"]
    answer = await client.put(f"/nodes/pve1/qemu/{vmid}/config", data={slot: f"{volid},wwn={WWN}"})
    assert answer.status_code == 200
    return volid


@pytest.fixture
async def loops(tmp_path: Path) -> AsyncIterator[LoopDevices]:
    blocks = LoopDevices(tmp_path)
    yield blocks
    await blocks.aclose()


async def test_a_plugged_file_appears_in_the_guest_with_its_identity(tmp_path: Path) -> None:
    world = three_hosts(blocks=SparseFiles(tmp_path))
    async with _client(world) as client:
        await _attach(client)
        block = tmp_path / "vm-111" / "sys" / "block" / "sdb"
        assert (block / "device" / "wwid").read_text() == "naa.5056432d49443031\n"
        assert (block / "size").read_text() == f"{(64 << 20) // 512}\n"
        assert (tmp_path / "vm-111" / "dev" / "sdb").stat().st_size == 64 << 20
        assert (tmp_path / "vm-111" / "dev" / "disk" / "by-id" / f"wwn-{WWN}").resolve().stat().st_size == 64 << 20
        assert (tmp_path / "vm-111" / "sys" / "bus" / "scsi" / "devices" / "2:0:0:3" / "wwid").exists()

        await client.put("/nodes/pve1/qemu/111/resize", data={"disk": "scsi3", "size": "128M"})
        await world.tasks.settle()
        assert (block / "size").read_text() == f"{(128 << 20) // 512}\n"

        await client.put("/nodes/pve1/qemu/111/config", data={"delete": "scsi3"})
        assert not block.exists()
        assert not (tmp_path / "vm-111" / "dev" / "sdb").is_symlink()
        assert list((tmp_path / "vm-111" / "dev" / "disk" / "by-id").iterdir()) == []


async def test_a_deleted_volume_stays_open_in_the_guest_that_has_it(tmp_path: Path) -> None:
    world = three_hosts(blocks=SparseFiles(tmp_path))
    async with _client(world) as client:
        volid = await _attach(client)
        await client.delete(f"/nodes/pve1/storage/local/content/{volid}", params={"delay": "5"})
        assert (tmp_path / "vm-111" / "sys" / "block" / "sdb").exists()
        # A volume of the same name is another volume.
        await _attach(client, vmid=112)
        await client.put("/nodes/pve1/qemu/111/config", data={"delete": "scsi3"})
        assert (tmp_path / "vm-112" / "dev" / "sdb").exists()


@needs_root
async def test_loop_devices_carry_data_from_guest_to_guest_and_vanish(tmp_path: Path, loops: LoopDevices) -> None:
    world = three_hosts(blocks=loops)
    async with _client(world) as client:
        volid = await _attach(client)
        node = tmp_path / "vm-111" / "dev" / "sdb"
        assert stat.S_ISBLK(node.stat().st_mode)
        await asyncio.to_thread(node.write_bytes, b"somebody's data".ljust(4096))
        await client.put("/nodes/pve1/qemu/111/resize", data={"disk": "scsi3", "size": "128M"})
        await world.tasks.settle()
        with node.open("rb") as device:
            assert device.seek(0, os.SEEK_END) == 128 << 20
        await client.put("/nodes/pve1/qemu/111/config", data={"delete": "scsi3"})
        assert not node.exists()
        await client.put("/nodes/pve1/qemu/112/config", data={"scsi1": f"{volid},wwn={WWN}"})
        with (tmp_path / "vm-112" / "dev" / "sdb").open("rb") as device:
            assert device.read(15) == b"somebody's data"
    await world.aclose()
    assert await _none_left_on(tmp_path)


async def _none_left_on(folder: Path) -> bool:
    """Whether no loop device is left; one that somebody else looks at just then goes when they have looked."""
    for _ in range(50):
        if not _loops_on(folder):
            return True
        await asyncio.sleep(0.1)
    return False


def _loops_on(folder: Path) -> list[str]:
    backing_files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(backing) for backing in backing_files if str(folder) in backing.read_text()]
