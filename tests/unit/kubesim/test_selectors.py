import pytest

from tests.kubesim.selectors import selector

NODE = {
    "metadata": {"name": "n1", "labels": {"zone": "pve1", "role": "worker", "empty": ""}},
    "spec": {"unschedulable": ""},
}


@pytest.mark.parametrize(
    ("label", "field", "matches"),
    [
        ("", "", True),
        ("zone=pve1,role==worker", "", True),
        ("zone=pve2", "", False),
        ("zone!=pve2", "", True),
        ("missing!=x", "", True),
        ("zone in (pve1, pve2),role", "", True),
        ("zone notin (pve1,pve2)", "", False),
        ("!missing", "", True),
        ("!zone", "", False),
        ("empty", "", True),
        ("", "metadata.name=n1", True),
        ("", "metadata.name==n2", False),
        ("", "metadata.name!=n2,spec.nodeName=", True),
    ],
)
def test_selectors(label: str, field: str, matches: bool) -> None:
    assert selector(label, field)(NODE) is matches
