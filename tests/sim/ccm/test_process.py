"""The service as a process, with the flags that a chart of the Go cloud-controller-manager gives it."""

import asyncio
import signal
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from tests.pvesim.worlds import three_hosts
from tests.sim.ccm.bench import bench, new_node


async def start(*flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ccm", *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def free_port() -> int:
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


async def test_a_chart_moves_by_changing_the_image(tmp_path: Path) -> None:
    port = free_port()
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at:
        process = await start(
            "-v=2", "--cloud-provider=proxmox", f"--cloud-config={at.cloud_config()}",
            "--controllers=cloud-node,cloud-node-lifecycle",
            "--leader-elect-resource-name=cloud-controller-manager-proxmox", "--use-service-account-credentials",
            f"--secure-port={port}", "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
            f"--kube-server={at.kube.url}",
        )  # fmt: skip
        try:
            await at.until_done("worker-11")
            blind = ssl.create_default_context()
            blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
            async with httpx.AsyncClient(verify=blind, base_url=f"https://127.0.0.1:{port}") as probe:
                assert (await probe.get("/healthz")).status_code == 200
                metrics = (await probe.get("/metrics")).text
            assert "node_controller_cloud_provider_taint_removal_delay_seconds_count 1.0" in metrics
            assert 'running_managed_controllers{manager="cloud-controller-manager",name="cloud-node"} 1.0' in metrics
            assert 'proxmox_api_request_duration_seconds_count{request="getInstanceInfo"} 1.0' in metrics
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.wait_for(process.communicate(), 10)
        assert process.returncode == 0
        text = log.decode()
        assert text.count("--use-service-account-credentials, --authorization-always-allow-paths") == 1
        assert "Node initialised" in text
        assert "66666666-7777" not in text  # the token's secret
        lease = at.kube.get(
            "leases", "cloud-controller-manager-proxmox", namespace="kube-system", group="coordination.k8s.io"
        )
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "features: {network: {mode: qemu}}\nclusters: [{region: r, url: https://x, token_id: a, token_secret: b}]",
            "guest agent",
        ),
        ("clusters: []", "clusters"),
        ("clusters: [{region: r, url: https://x, token_id: a, token_secret: b, regoin: r}]", 'did you mean "region"?'),
    ],
)
async def test_wrong_settings_end_it_with_status_2_and_all_reasons(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(text)
    process = await start(f"--cloud-config={file}", "--kube-server=http://127.0.0.1:1")
    _, log = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 2
    assert problem in log.decode()
    assert "Traceback" not in log.decode()
