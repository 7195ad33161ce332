"""The demo ends with a reason, the end of a log and status 1 when a service is broken, and leaves nothing behind."""

from collections.abc import Callable

import pytest

from tests.demo import leftovers
from tests.packaging.conftest import Tree

CASES = {
    "a service that does not start": (
        "services/csi_node/app.py",
        'async def planted(self): raise OSError("planted: no socket")\n\nassert App.start\nApp.start = planted\n',
        ("ended with status 1", "the end of worker-", "planted: no socket"),
    ),
    "a call that fails": (
        "services/csi_controller/attachments.py",
        (
            'async def planted(*_, **__): raise RuntimeError("planted")\n\n'
            "assert Attachments.publish\nAttachments.publish = planted\n"
        ),
        ("hot-plugged into worker-21: controller answered INTERNAL", "the end of controller.log"),
    ),
    "a success that was none": (
        "services/csi_node/publishing.py",
        "async def planted(*_, **__): return None\n\nassert Publishing.publish\nPublishing.publish = planted\n",
        ("✗ data-pg-0: formatted and mounted on worker-21",),
    ),
    "a request too many": (
        "libs/pvekit/client.py",
        """real = PveClient.request

async def planted(self, method, path, *more, **named):
    if method == "POST":
        await real(self, "GET", "/version")
    return await real(self, method, path, *more, **named)

PveClient.request = planted
""",
        ("2 foreground requests; at most 1 are allowed",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_demo_notices(copy_tree: Callable[[], Tree], name: str) -> None:
    file, code, words = CASES[name]
    tree = copy_tree()
    tree.append(file, f"\n\n{code}")
    before = set(leftovers.folders())
    seen = tree.python("-m", "tests.demo")
    assert seen.returncode == 1, seen.stdout
    for word in words:
        assert word in seen.stdout
    assert "Traceback" not in seen.stderr
    assert set(leftovers.folders()) == before
