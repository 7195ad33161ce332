"""Each guard of the repository is shown a mistake and must name it; shown the tree as it is, it must be silent."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.conftest import Tree

LINT_IMPORTS = str(Path(sys.executable).parent / "lint-imports")
MakeTree = Callable[[], Tree]


def test_bad_imports_are_caught(copy_tree: MakeTree) -> None:
    tree = copy_tree()
    tree.append("libs/appkit/__init__.py", "\nimport httpx\n")
    tree.append("libs/pvekit/__init__.py", "\nimport kubernetes\n")
    tree.append("libs/kubekit/__init__.py", "\nimport csikit.handles\n")
    tree.append("libs/csikit/__init__.py", "\nimport pvekit\n")
    tree.append("services/csi_node/__init__.py", "\nimport httpx\nimport pvekit.client\n")
    tree.append("services/ccm/__init__.py", "\nimport grpc\n")
    tree.append("services/csi_controller/__init__.py", "\nimport ccm.labels\nimport tests.pvesim\n")
    tree.append("services/csi_controller/volumes.py", "\nimport grpc\nimport kubekit.sessions\n")
    tree.append("services/csi_controller/parameters.py", "\nimport csi_controller.volumes\n")
    tree.append("services/csi_node/host/exec.py", "\nimport csi_node.staging\n")
    found = tree.run(LINT_IMPORTS, "--no-cache", "--no-logo")
    assert found.returncode == 1
    broken = [line.partition(" BROKEN")[0] for line in found.stdout.splitlines() if " BROKEN" in line]
    assert sorted(broken) == [
        "appkit knows no kit and speaks no protocol",
        "csikit knows neither Proxmox nor Kubernetes",
        "in the CSI controller only kube_nodes speaks to Kubernetes",
        "in the node service only own_node speaks HTTP",
        "kubekit knows neither Proxmox nor CSI",
        "nothing shipped imports tests",
        "only the border of the CSI services speaks gRPC",
        "pvekit knows neither Kubernetes nor CSI",
        "services do not import one another, and the CCM speaks no gRPC",
        "the CSI controller imports no other service",
        "the CSI controller's layers",
        "the node service holds no Proxmox or big Kubernetes client",
        "the node service's layers",
    ]


@pytest.mark.parametrize(
    "line",
    [
        'log.info("token %s", settings.token_secret.get_secret_value())',
        'log.warning("login", extra={"token": cluster.token_secret})',
        'log.debug(f"stage with {request.secrets}")',
        'log.error("unlock failed: %s", request.secrets["encryption-passphrase"])',
        'raise ValueError(f"wrong password {password}")',
        "print(passphrase)",
        "value = settings.token_secret.get_secret_value()",
    ],
)
def test_a_secret_on_its_way_into_a_log_is_caught(copy_tree: MakeTree, line: str) -> None:
    tree = copy_tree()
    tree.append(
        "services/ccm/app.py", f"\n\ndef planted(log, settings, cluster, request, password, passphrase):\n    {line}\n"
    )
    found = tree.python("-m", "tools.check_secrets")
    assert found.returncode == 1
    assert "services/ccm/app.py:" in found.stdout


@pytest.mark.parametrize(
    "line",
    [
        'log.info("token file %s", settings.token_secret_file)',
        'log.info("secret given: %s", bool(settings.token_secret))',
        'log.info("secret %s", mask(settings.token_secret))',
    ],
)
def test_speaking_about_a_secret_is_allowed(copy_tree: MakeTree, line: str) -> None:
    tree = copy_tree()
    tree.append("services/ccm/app.py", f"\n\ndef spoken(log, settings, mask):\n    {line}\n")
    assert tree.python("-m", "tools.check_secrets").returncode == 0


def test_stale_generated_code_is_caught(copy_tree: MakeTree) -> None:
    tree = copy_tree()
    assert tree.python("tools/gen_proto.py", "--check").returncode == 0
    tree.append("libs/csikit/pb/csi_pb2_grpc.py", "# edited by hand\n")
    found = tree.python("tools/gen_proto.py", "--check")
    assert found.returncode == 1
    assert "csi_pb2_grpc.py" in found.stdout + found.stderr


def test_a_changed_protocol_file_is_caught(copy_tree: MakeTree) -> None:
    tree = copy_tree()
    tree.replace("proto/csi/v1/csi.proto", "message ProbeResponse {", "message ProbeResponse {\n  string planted = 77;")
    assert tree.python("tools/gen_proto.py", "--check").returncode == 1


def test_pins_older_than_the_project_file_are_caught(copy_tree: MakeTree) -> None:
    tree = copy_tree()
    check = "from tools import compile_requirements as c; print('\\n'.join(c.problems()))"
    assert tree.python("-c", check).stdout.strip() == ""
    tree.replace("pyproject.toml", '"pyyaml>=', '"pyyaml>=6,>=')
    assert "requirements/node.txt is older than pyproject.toml" in tree.python("-c", check).stdout


def test_an_index_address_in_the_pins_is_caught(copy_tree: MakeTree) -> None:
    tree = copy_tree()
    tree.append("requirements/ccm.txt", "--index-url https://mirror.example/simple\n")
    check = "from tools import compile_requirements as c; print('\\n'.join(c.problems()))"
    assert "requirements/ccm.txt contains an address" in tree.python("-c", check).stdout
