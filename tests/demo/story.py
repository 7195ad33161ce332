"""The story, from top to bottom: three Nodes, a volume's life on local storage, one on shared storage, nothing left.

Every step names what is called, and checks the result where it can be seen: in the VMs' configurations, in the mounted
file system, in the Kubernetes objects.
"""

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from csikit.contract import TOPOLOGY_REGION, TOPOLOGY_ZONE
from csikit.pb import csi_pb2
from tests.demo import kubelet
from tests.demo.kubelet import Claim, Mountpoints
from tests.demo.play import Play, Scene
from tests.demo.processes import DemoError
from tests.demo.setting import HOSTS, PROXMOX_DATA, PROXMOX_SHARED, REGION, WORKERS, StorageClass, Worker
from tests.demo.stage import Stage

GIB = 1 << 30
FILE_BYTES = 8 << 20
INITIALISE_S = 20.0
ATTACHED_ELSEWHERE = (grpc.StatusCode.FAILED_PRECONDITION,)
OUT_OF_REACH = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)


def worker(name: str) -> Worker:
    """A worker VM by its name."""
    return next(each for each in WORKERS if each.name == name)


class Story:
    """Plays on a stage; `pods` are the mounts that a kubelet would know of."""

    def __init__(self, stage: Stage, play: Play) -> None:
        self._stage = stage
        self._play = play
        self._screen = stage.screen
        self._contexts: dict[tuple[str, str], dict[str, str]] = {}

    async def tell(self) -> None:
        """Everything, in order."""
        first = [worker(f"worker-{host}1") for host in (1, 2, 3)]
        self._screen.chapter(
            "Three Nodes are initialised",
            "Kubelets with --cloud-provider=external have registered them, tainted; the CCM finds their VMs.",
        )
        await self.initialise(first, shown=True)
        await self.initialise([each for each in WORKERS if each not in first], shown=False)
        await self.register_drivers()
        await self.local_volume()
        await self.shared_volume()

    async def initialise(self, workers: Sequence[Worker], *, shown: bool) -> None:
        """Creates Nodes and waits until the CCM has removed their taints."""
        for each in workers:
            await self._stage.kube.create_node(each)
        nodes = await self._stage.wait_initialised(workers, INITIALISE_S)
        for each, node in zip(workers, nodes, strict=True):
            self._check_node(each, node)
        names = ", ".join(each.name for each in workers)
        if not shown:
            self._screen.say(f"✓ Three more join in the same way: {names}")
            return
        self._screen.say(f"✓ {names}: untainted")
        self._screen.table(
            ("Node", "providerID", "zone", "region", "instance type", "InternalIP"),
            [
                (
                    node["metadata"]["name"],
                    node["spec"]["providerID"],
                    node["metadata"]["labels"][TOPOLOGY_ZONE],
                    node["metadata"]["labels"][TOPOLOGY_REGION],
                    node["metadata"]["labels"].get("node.kubernetes.io/instance-type", ""),
                    next(each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"),
                )
                for node in nodes
            ],
        )

    def _check_node(self, each: Worker, node: Mapping[str, Any]) -> None:
        seen = (
            node["spec"].get("providerID"),
            node["metadata"]["labels"].get(TOPOLOGY_REGION),
            node["metadata"]["labels"].get(TOPOLOGY_ZONE),
            [taint["key"] for taint in node["spec"].get("taints") or []],
        )
        expected: tuple[str, str, str, list[str]] = (f"proxmox://{REGION}/{each.vmid}", REGION, each.host, [])
        if seen != expected:
            self._stage.fail(f"Node {each.name} is {seen}; it should be {expected}")

    async def register_drivers(self) -> None:
        """What the kubelet asks each node service when it registers."""
        self._screen.chapter(
            "A claim of class proxmox-data: local-lvm, xfs, ssd",
            "The sidecars' and the kubelet's calls are made here; the services behind the sockets are those we ship.",
        )
        rows = []
        for each in WORKERS:
            info = await self._stage.nodes[each.name].must("NodeGetInfo", csi_pb2.NodeGetInfoRequest())
            zone = info.accessible_topology.segments[TOPOLOGY_ZONE]
            if zone != each.host:
                self._stage.fail(f"{each.name} says its zone is {zone!r}; its VM runs on {each.host}")
            self._stage.node_ids[each.name] = info.node_id
            rows.append((info.node_id, zone, str(info.max_volumes_per_node)))
        self._screen.table(("NodeGetInfo: node_id", "zone", "at most volumes"), rows)

    async def local_volume(self) -> None:
        """The life of a volume that is bound to one host."""
        first, second, far = worker("worker-21"), worker("worker-22"), worker("worker-31")
        claim = await self.create("data-pg-0", PROXMOX_DATA, [first], f"only on {first.host}")
        await self.attach(claim, first)
        checksum = await self.start_pod(claim, first, write=True)
        await self.refuse_attached_elsewhere(claim, first, second)
        await self.grow(claim, first)
        await self.stop_pod(claim, first)
        await self.attach(claim, second)
        await self.start_pod(claim, second, expected=checksum)
        await self.stop_pod(claim, second)
        await self.refuse_other_host(claim, far)
        await self.delete(claim)

    async def shared_volume(self) -> None:
        """The life of a volume that follows its Pod."""
        self._screen.chapter(
            "A claim on shared storage follows its Pod to another host",
            "The PersistentVolume is bound to the region alone, so the scheduler may choose any host.",
        )
        here, there = worker("worker-11"), worker("worker-32")
        claim = await self.create("data-wiki-0", PROXMOX_SHARED, [here, *WORKERS], "in the region, without a zone")
        await self.attach(claim, here)
        checksum = await self.start_pod(claim, here, write=True)
        await self.stop_pod(claim, here)
        await self.attach(claim, there)
        await self.start_pod(claim, there, expected=checksum)
        await self.stop_pod(claim, there)
        await self.delete(claim)

    async def create(self, name: str, storage_class: StorageClass, workers: Sequence[Worker], where: str) -> Claim:
        """CreateVolume, checked on the host it should be on."""
        claim = Claim(name, storage_class, f"pvc-{uuid.uuid4()}")
        request = kubelet.create_request(claim, 10 * GIB, list(workers))
        title = f"{name}: 10 GiB are created {where}"
        async with self._play.scene(title, foreground_max=1) as scene:
            shown = f"{claim.volume_name}, 10 GiB, {dict(storage_class.parameters)}, preferred zone {workers[0].host}"
            response = await scene.call(self._stage.controller, "CreateVolume", request, shown)
            claim = dataclasses.replace(
                claim,
                volume_id=response.volume.volume_id,
                volume_context=tuple(response.volume.volume_context.items()),
            )
            volumes = (await self._stage.pve.snapshot()).volumes
            (volid,) = [each for each in volumes if claim.volume_name in each]
            local = storage_class is PROXMOX_DATA
            zones = {each.segments.get(TOPOLOGY_ZONE, "") for each in response.volume.accessible_topology}
            scene.must(volumes[volid] == (workers[0].host if local else ""), f"{volid} is on {volumes[volid]!r}")
            scene.must(zones == ({workers[0].host} if local else {""}), f"the volume's topology is {zones}")
            scene.must(response.volume.capacity_bytes == 10 * GIB, f"{response.volume.capacity_bytes} bytes")
            scene.saw(f"{volid} on {volumes[volid] or 'shared storage'}")
            scene.saw(f"volume_id {claim.volume_id}")
        return claim

    async def attach(self, claim: Claim, where: Worker) -> None:
        """ControllerPublishVolume, checked in the VM's configuration."""
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=claim.volume_id,
            node_id=self._stage.node_ids[where.name],
            volume_capability=claim.capability,
            volume_context=dict(claim.volume_context),
        )
        async with self._play.scene(f"{claim.name}: hot-plugged into {where.name}", foreground_max=3) as scene:
            shown = f"{claim.volume_name}, node {self._stage.node_ids[where.name]}"
            response = await scene.call(self._stage.controller, "ControllerPublishVolume", request, shown)
            self._contexts[claim.volume_id, where.name] = dict(response.publish_context)
            disks = (await self._stage.pve.snapshot()).disks[where.name]
            scene.must(any(claim.volume_name in line for line in disks), f"the VM's disks are {disks}")
            scene.saw(f"publish_context {dict(response.publish_context)}")

    async def start_pod(self, claim: Claim, where: Worker, *, write: bool = False, expected: str = "") -> str:
        """NodeStageVolume and NodePublishVolume, then the Pod writes or reads its file."""
        mounts = self._mounts(claim, where)
        mounts.prepare()
        node = self._stage.nodes[where.name]
        context = self._contexts[claim.volume_id, where.name]
        done = "formatted and mounted" if write else "mounted with its data"
        async with self._play.scene(f"{claim.name}: {done} on {where.name}", foreground_max=0) as scene:
            await scene.call(
                node,
                "NodeStageVolume",
                csi_pb2.NodeStageVolumeRequest(
                    volume_id=claim.volume_id,
                    publish_context=context,
                    staging_target_path=str(mounts.staging),
                    volume_capability=claim.capability,
                    volume_context=dict(claim.volume_context),
                ),
                f"{claim.storage_class.fs_type}, {context.get('DevicePath', '')}",
            )
            await scene.call(
                node,
                "NodePublishVolume",
                csi_pb2.NodePublishVolumeRequest(
                    volume_id=claim.volume_id,
                    publish_context=context,
                    staging_target_path=str(mounts.staging),
                    target_path=str(mounts.target),
                    volume_capability=claim.capability,
                    volume_context=dict(claim.volume_context),
                ),
                "the Pod's own mount",
            )
            try:
                return self._use_file(scene, mounts, write=write, expected=expected)
            except OSError as error:
                raise DemoError(f"{claim.name}: the Pod cannot use its volume: {error}", where.name) from error

    def _use_file(self, scene: Scene, mounts: Mountpoints, *, write: bool, expected: str) -> str:
        df = ""
        if self._stage.real:
            scene.must(mounts.target.is_mount(), f"{mounts.target} is not a mount point")
            df = f"df says {kubelet.capacity_bytes(mounts.target) / GIB:.1f} GiB; "
        if write:
            checksum = kubelet.write_file(mounts.target, FILE_BYTES)
            scene.saw(f"in the Pod: {df}8 MiB written, sha256 {checksum[:16]}…")
            return checksum
        checksum = kubelet.read_checksum(mounts.target)
        scene.must(checksum == expected, f"the file's checksum is {checksum}, it was {expected}")
        scene.saw(f"in the Pod: {df}the file is there, sha256 {checksum[:16]}…")
        return checksum

    async def grow(self, claim: Claim, where: Worker) -> None:
        """ControllerExpandVolume and NodeExpandVolume while the Pod runs."""
        mounts = self._mounts(claim, where)
        wanted = csi_pb2.CapacityRange(required_bytes=20 * GIB)
        async with self._play.scene(f"{claim.name}: grown to 20 GiB while mounted", foreground_max=4) as scene:
            response = await scene.call(
                self._stage.controller,
                "ControllerExpandVolume",
                csi_pb2.ControllerExpandVolumeRequest(
                    volume_id=claim.volume_id, capacity_range=wanted, volume_capability=claim.capability
                ),
                "20 GiB",
            )
            scene.must(response.capacity_bytes == 20 * GIB, f"the disk has {response.capacity_bytes} bytes")
            scene.must(response.node_expansion_required, "the node service is not asked to grow the file system")
            await scene.call(
                self._stage.nodes[where.name],
                "NodeExpandVolume",
                csi_pb2.NodeExpandVolumeRequest(
                    volume_id=claim.volume_id,
                    volume_path=str(mounts.target),
                    staging_target_path=str(mounts.staging),
                    capacity_range=wanted,
                    volume_capability=claim.capability,
                ),
                "20 GiB",
            )
            if self._stage.real:
                size = kubelet.capacity_bytes(mounts.target)
                scene.must(size > 19 * GIB, f"the file system has {size} bytes")
                scene.saw(f"in the Pod: df says {size / GIB:.1f} GiB")

    async def stop_pod(self, claim: Claim, where: Worker) -> None:
        """NodeUnpublishVolume, NodeUnstageVolume, ControllerUnpublishVolume."""
        mounts = self._mounts(claim, where)
        node = self._stage.nodes[where.name]
        async with self._play.scene(
            f"{claim.name}: unmounted and detached from {where.name}", foreground_max=3
        ) as scene:
            unpublish = csi_pb2.NodeUnpublishVolumeRequest(volume_id=claim.volume_id, target_path=str(mounts.target))
            await scene.call(node, "NodeUnpublishVolume", unpublish, "the Pod's own mount")
            unstage = csi_pb2.NodeUnstageVolumeRequest(
                volume_id=claim.volume_id, staging_target_path=str(mounts.staging)
            )
            await scene.call(node, "NodeUnstageVolume", unstage, "the global mount")
            await scene.call(
                self._stage.controller,
                "ControllerUnpublishVolume",
                csi_pb2.ControllerUnpublishVolumeRequest(
                    volume_id=claim.volume_id, node_id=self._stage.node_ids[where.name]
                ),
                f"{claim.volume_name}, node {self._stage.node_ids[where.name]}",
            )
            self._check_detached(scene, claim, (await self._stage.pve.snapshot()).disks)

    def _check_detached(self, scene: Scene, claim: Claim, disks: Mapping[str, Sequence[str]]) -> None:
        holding = [name for name, lines in disks.items() if any(claim.volume_name in line for line in lines)]
        scene.must(not holding, f"still in the configuration of {', '.join(holding)}")

    async def refuse_attached_elsewhere(self, claim: Claim, holder: Worker, other: Worker) -> None:
        """A disk is in one VM at a time."""
        title = f"{claim.name}: refused on {other.name} while {holder.name} has it"
        async with self._play.scene(title, foreground_max=3) as scene:
            await self._refused_publish(scene, claim, other, ATTACHED_ELSEWHERE)

    async def refuse_other_host(self, claim: Claim, far: Worker) -> None:
        """Local storage stays on its host."""
        title = f"{claim.name}: refused on {far.name}, whose host {far.host} has not got the disk"
        async with self._play.scene(title, foreground_max=3) as scene:
            reason = await self._refused_publish(scene, claim, far, OUT_OF_REACH)
            named = [host for host in HOSTS if host in reason]
            scene.must(far.host in named and len(named) > 1, "the reason does not name both hosts")

    async def _refused_publish(
        self, scene: Scene, claim: Claim, where: Worker, codes: Sequence[grpc.StatusCode]
    ) -> str:
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=claim.volume_id,
            node_id=self._stage.node_ids[where.name],
            volume_capability=claim.capability,
            volume_context=dict(claim.volume_context),
        )
        before = (await self._stage.pve.snapshot()).disks[where.name]
        shown = f"{claim.volume_name}, node {self._stage.node_ids[where.name]}"
        reason = await scene.refused(self._stage.controller, "ControllerPublishVolume", request, shown, codes)
        scene.must((await self._stage.pve.snapshot()).disks[where.name] == before, "the VM's configuration changed")
        return reason

    async def delete(self, claim: Claim) -> None:
        """DeleteVolume, checked on the storage."""
        async with self._play.scene(f"{claim.name}: deleted", foreground_max=2) as scene:
            request = csi_pb2.DeleteVolumeRequest(volume_id=claim.volume_id)
            await scene.call(self._stage.controller, "DeleteVolume", request, claim.volume_id)
            volumes = (await self._stage.pve.snapshot()).volumes
            scene.must(not any(claim.volume_name in each for each in volumes), "the volume is still there")
            scene.saw("the volume is gone from the storage")

    def _mounts(self, claim: Claim, where: Worker) -> Mountpoints:
        pod_uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{claim.name}.{where.name}"))
        return Mountpoints(self._stage.kubelet_dir(where), claim.volume_name, claim.volume_id, pod_uid)
