"""The whole service as built for production, on a fake host: starts, answers, stops."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from appkit.settings import SettingsError
from appkit.version import __version__
from csi_node.__main__ import main, parser, read_settings
from csi_node.app import build
from csi_node.settings import NodeSettings
from csikit.pb import csi_pb2, csi_pb2_grpc
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.runner import FakeHost


@pytest.fixture
def socket() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="node-"))
    yield folder / "csi.sock"
    shutil.rmtree(folder)


def settings_of(machine: FakeMachine, socket: Path, **changes: object) -> NodeSettings:
    return machine.settings.model_copy(
        update={"csi_address": f"unix://{socket}", "metrics_address": "127.0.0.1:0", **changes}
    )


def listening(socket: Path) -> bool:
    return socket.exists()


def host_of(machine: FakeMachine) -> FakeHost:
    return machine.host


async def test_answers_with_the_api_server_away_and_stops(machine: FakeMachine, socket: Path) -> None:
    settings = settings_of(machine, socket, kube_server="http://127.0.0.1:1")
    app = build(settings, env={}, runner=host_of(machine), kernel=host_of(machine))
    stop = asyncio.Event()
    running = asyncio.create_task(app.run(stop))
    while not listening(socket):  # noqa: ASYNC110 - gRPC says nothing when it listens
        await asyncio.sleep(0.005)
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        identity, node = csi_pb2_grpc.IdentityStub(channel), csi_pb2_grpc.NodeStub(channel)
        probed = await identity.Probe(csi_pb2.ProbeRequest(), wait_for_ready=True)
        assert probed.ready.value
        info = await identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest())
        assert (info.name, info.vendor_version) == ("csi.proxmox.sinextra.dev", __version__)
        with pytest.raises(grpc.aio.AioRpcError, match="does not answer") as caught:
            await node.NodeGetInfo(csi_pb2.NodeGetInfoRequest())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    stop.set()
    await running
    assert not listening(socket)


async def test_stop_waits_for_a_running_stage(machine: FakeMachine, socket: Path) -> None:
    app = build(settings_of(machine, socket), env={}, runner=host_of(machine), kernel=host_of(machine))
    await app.start()
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.host.duration_s["mkfs.ext4"] = 0.2
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = csi_pb2_grpc.NodeStub(channel).NodeStageVolume(machine.stage_request(volume))
        while "mkfs.ext4" not in [line[0] for line in machine.host.lines]:  # noqa: ASYNC110 - a fake's note
            await asyncio.sleep(0.01)
        await app.aclose()
        await call
    assert machine.mounted() == [machine.staging(volume)]


def test_flags_environment_and_file(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("kubelet_dir: /from/file\ndrain_s: 3\n")
    arguments = parser().parse_args(["--config", str(file), "-v=5", "--master", "http://k:1", "--device-timeout", "7"])
    env = {"NODE_NAME": "worker-11", "KUBECONFIG": "/kube", "PVECLOUD_CSI_NODE_DEV_ROOT": "/hostdev"}
    settings = read_settings(arguments, env)
    assert settings == NodeSettings(
        node_id="worker-11",
        kubelet_dir=Path("/from/file"),
        drain_s=3,
        log_level="debug",
        kube_server="http://k:1",
        kubeconfig=Path("/kube"),
        dev_root=Path("/hostdev"),
        device_timeout_s=7,
    )
    arguments = parser().parse_args(["--node-id", "worker-12/112", "--kubeconfig", "/flag"])
    settings = read_settings(arguments, env)
    assert (settings.node.name, settings.node.vmid, settings.kubeconfig) == ("worker-12", 112, Path("/flag"))


def test_wrong_settings_are_named_together() -> None:
    arguments = parser().parse_args(["--node-id", "a/b", "--sys-root", "sys"])
    with pytest.raises(SettingsError) as caught:
        read_settings(arguments, {})
    text = str(caught.value)
    assert "node_id" in text
    assert "sys_root: " in text
    with pytest.raises(SettingsError, match="node_id: is required"):
        read_settings(parser().parse_args([]), {})


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"pvecloud-csi-node {__version__}\n"
