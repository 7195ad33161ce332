"""A world that takes as long as the recorded one, and callers of it, for the tests of what goes wrong in a cluster."""

from typing import Any

from tests.pvesim.direct import Direct, Reply
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts


class Measured:
    """Three hosts with the profile "as measured"; `csi`, `ccm` and `root` ask the first of them."""

    def __init__(self) -> None:
        self.world: World = three_hosts(profile="as measured")
        self.csi = Direct(self.world, CSI_TOKEN, CSI_SECRET)
        self.ccm = Direct(self.world, CCM_TOKEN, CCM_SECRET)
        self.root = Direct(self.world, ROOT_TOKEN, ROOT_SECRET)

    def now(self) -> float:
        """Seconds of the world's clock."""
        return self.world.clock.monotonic()

    async def timed(self, request: Any) -> tuple[Reply, float]:
        """(reply, seconds it took) of an awaited request."""
        begin = self.now()
        reply: Reply = await request
        return reply, self.now() - begin

    async def volume(self, name: str, *, node: str = "pve1") -> str:
        """A new foreign volume on that host's directory."""
        reply = await self.csi.post(
            f"/nodes/{node}/storage/local/content", vmid=9999, filename=f"vm-9999-{name}.raw", size="64M"
        )
        volid: str = reply.data
        return volid

    async def resource(self, wanted: str) -> dict[str, Any]:
        """One entry of /cluster/resources by its id."""
        entries = (await self.root.get("/cluster/resources")).data
        found: dict[str, Any] = next(entry for entry in entries if entry["id"] == wanted)
        return found

    async def pending(self, vmid: int = 111, *, node: str = "pve1") -> dict[str, dict[str, Any]]:
        """GET pending by key."""
        return {entry["key"]: entry for entry in (await self.csi.get(f"/nodes/{node}/qemu/{vmid}/pending")).data}
