"""A run that is left running: says what listens where, how to talk to it, and how to end it."""

import shlex
import sys

from tests.demo.screen import Screen
from tests.demo.setting import WORKERS
from tests.demo.stage import Stage
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN


def keep(screen: Screen, stage: Stage) -> None:
    """Marks the run as left on purpose and prints the way in."""
    (stage.folder / "kept").touch()
    rpc = f"{shlex.quote(sys.executable)} -m tests.demo.rpc"
    worker = WORKERS[0]
    config = f"{stage.pve_url}/api2/json/nodes/{worker.host}/qemu/{worker.vmid}/config"
    screen.chapter("Left running (KEEP=1)")
    screen.table(
        ("what", "where"),
        [
            ("Proxmox VE (simulated)", f"{stage.pve_url}/api2/json   CA {stage.ca_file}"),
            ("Kubernetes API (fake)", f"{stage.kube_url}   kubeconfig {stage.kubeconfig}"),
            ("CSI controller", str(stage.socket("controller"))),
            *((f"CSI node {each.name}", str(stage.socket(each.name))) for each in WORKERS),
            ("logs", str(stage.folder / "logs")),
        ],
    )
    screen.say("\nTalk to it:")
    for line in (
        f"{rpc} {stage.socket('controller')} ControllerGetCapabilities",
        f"{rpc} {stage.socket(worker.name)} NodeGetInfo",
        f"curl --cacert {stage.ca_file} -H 'Authorization: PVEAPIToken={CSI_TOKEN}={CSI_SECRET}' {config}",
        f"curl {stage.kube_url}/api/v1/nodes/{worker.name}",
        f"tail -f {stage.folder / 'logs'}/*.log",
    ):
        screen.command(line)
    screen.say("\nEnd it:")
    screen.command("make demo-stop")
