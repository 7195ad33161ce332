import pytest

from kubekit import objects


def test_paths() -> None:
    path = objects.resource_path
    assert path("v1", "nodes") == "/api/v1/nodes"
    assert path("v1", "nodes", name="n1", subresource="status") == "/api/v1/nodes/n1/status"
    assert path("coordination.k8s.io/v1", "leases", namespace="kube-system", name="l") == (
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"
    )
    assert path("v1", "nodes", name="a/../b?c") == "/api/v1/nodes/a%2F..%2Fb%3Fc"


@pytest.mark.parametrize(("name", "namespace", "key"), [("n", None, "n"), ("n", "ns", "ns/n")])
def test_keys(name: str, namespace: str | None, key: str) -> None:
    assert objects.format_key(name, namespace) == key
    assert objects.parse_key(key) == (name, namespace)
    assert objects.key_of({"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}) == key


def test_references() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "labels": {}}, "spec": {}}
    assert objects.reference_to(node) == {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}


@pytest.mark.parametrize(
    ("path", "described"),
    [
        ("/api/v1/nodes", ("nodes", False)),
        ("/api/v1/nodes/n1", ("nodes", True)),
        ("/api/v1/nodes/n1/status", ("nodes/status", True)),
        ("/api/v1/namespaces/default/events", ("events", False)),
        ("/api/v1/namespaces/default", ("namespaces", True)),
        ("/apis/coordination.k8s.io/v1/namespaces/x/leases/l", ("leases.coordination.k8s.io", True)),
        ("/apis/storage.k8s.io/v1", ("discovery", False)),
        ("/version", ("version", False)),
    ],
)
def test_paths_described_for_metrics_hold_no_names(path: str, described: tuple[str, bool]) -> None:
    assert objects.describe_path(path) == described
