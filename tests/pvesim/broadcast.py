"""The status broadcast: /cluster/resources shows VMs and storages as each host last told the others.

With a broadcast period (10 s as measured) a list lags; a host that is cut off keeps its last values for about five
minutes. Which VM is on which node never lags (it comes from the cluster file system). Recorded from 9.2.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.pvesim.nodes import UNKNOWN_AFTER_S
from tests.pvesim.state import Darkness, Node, Storage, Vm
from tests.pvesim.vmstatus import vm_summary

if TYPE_CHECKING:
    from tests.pvesim.world import World


@dataclass
class _Heard:
    vms: dict[int, dict[str, Any]] = field(default_factory=dict)
    storages: dict[str, dict[str, Any]] = field(default_factory=dict)


class Broadcasts:
    """What every host last said."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._heard: dict[str, _Heard] = {}
        self._next_at = 0.0

    def tick(self) -> None:
        """Called before each request: broadcast if the period is over, before the request changes anything."""
        period = self._world.profile.broadcast_s
        now = self._world.clock.monotonic()
        if period and now < self._next_at:
            return
        self._next_at = (now // period + 1) * period if period else 0.0
        if period:
            self._listen()

    def darken(self, name: str, how: Darkness) -> None:
        """Take a host off the air; the others keep what it said last."""
        self._listen()
        self._world.nodes.darken(name, how)
        self._world.ha_manager.host_changed(name)

    def refresh(self) -> None:
        """Broadcast now (the contract replay waits for one this way)."""
        self._listen()

    def forget(self) -> None:
        """The cluster's daemons were restarted: until the next broadcast nobody knows anything."""
        self._heard.clear()
        period = self._world.profile.broadcast_s
        self._next_at = self._world.clock.monotonic() + period

    def vm_entry(self, vm: Vm) -> dict[str, Any]:
        """What the cluster knows of a VM."""
        node = self._world.nodes.find(vm.node)
        unknown = {"status": "unknown"}
        if node is not None and self._world.nodes.dark_for(node) > UNKNOWN_AFTER_S:
            return unknown
        if self._is_live(node):
            return vm_summary(self._world, vm)
        return self._heard.get(vm.node, _Heard()).vms.get(vm.vmid, unknown)

    def storage_entry(self, storage: Storage, node: Node) -> dict[str, Any]:
        """What the cluster knows of a storage on a host."""
        if self._world.nodes.dark_for(node) > UNKNOWN_AFTER_S:
            return {"status": "unknown"}
        if self._is_live(node):
            return self._measure(storage, node)
        heard = self._heard.get(node.name, _Heard()).storages.get(storage.storage_id)
        return heard if heard is not None else {"status": "unknown"}

    def _is_live(self, node: Node | None) -> bool:
        return not self._world.profile.broadcast_s and node is not None and node.dark != "cut"

    def _listen(self) -> None:
        for node in self._world.nodes:
            if node.dark == "cut":
                continue
            heard = _Heard()
            for vm in self._world.vms.values():
                if vm.node == node.name:
                    heard.vms[vm.vmid] = vm_summary(self._world, vm)
            for storage in self._world.storages.definitions.values():
                heard.storages[storage.storage_id] = self._measure(storage, node)
            self._heard[node.name] = heard

    def _measure(self, storage: Storage, node: Node) -> dict[str, Any]:
        return {
            "status": "available",
            "maxdisk": storage.size_bytes,
            "disk": self._world.storages.used_bytes(storage, node.name),
        }
