"""The two recorded installations as they were before the first recorded request.

Must hold only what the recordings themselves show to have been there; what came later without a recorded request is in
`outside.py`.
"""

from typing import Any

from tests.contract.naming import Naming
from tests.contract.recordings import Place, load
from tests.pvesim.world import World

_ALL_CONTENT = "backup,images,import,iso,rootdir,snippets,vztmpl"
_DISK = {"size": str(270_553_174_016), "used": str(27_973_095_424)}
_NODE = {"dns": "10.255.255.53", "cpus": 2, "memory": str(25_325_268_992), "disk": str(270_553_174_016)}
ROOT_PASSWORD = "password"


def starting_world(place: Place, naming: Naming, *, seed: int = 1) -> World:
    """A fresh world; its clock shows the time of the first recorded request when the replay begins."""
    first = next(recording for recording in load() if recording.place == place)
    raw = _single() if place == "single" else _cluster()
    raw |= {
        "seed": seed,
        "profile": "as measured",
        "epoch": int(first.sent_at),
        "users": {"root@pam": {"password": ROOT_PASSWORD, "email": "root@example.test"}},
        "nodes": {naming.node(name): spec for name, spec in raw["nodes"].items()},
        "storages": {
            naming.storage(name): spec | {key: naming.text(spec[key]) for key in ("path", "nodes") if key in spec}
            for name, spec in raw["storages"].items()
        },
    }
    return World.from_dict(raw)


def _single() -> dict[str, Any]:
    return {
        "nodes": {"pve1": {"ip": "192.0.2.2", "interfaces": ["eth0"], **_NODE}},
        "storages": {
            "local": {"type": "dir", "path": "/var/lib/vz", "content": _ALL_CONTENT, **_DISK},
            "shared": {
                "type": "dir",
                "path": "/srv/shared",
                "content": "images,rootdir,snippets",
                "shared": 1,
                **_DISK,
            },
            "othernode": {"type": "dir", "path": "/srv/other", "content": "images", "nodes": "pve2", **_DISK},
            "isoonly": {"type": "dir", "path": "/srv/nodisk", "content": "iso,vztmpl", "disable": 1, **_DISK},
        },
    }


def _cluster() -> dict[str, Any]:
    content = "backup,images,import,iso,snippets,vztmpl"
    return {
        "cluster": "lab",
        "nodes": {f"pve{n}": {"ip": f"192.0.2.{n}", "interfaces": [], **_NODE} for n in (1, 2, 3)},
        "storages": {
            "local": {"type": "dir", "path": "/var/lib/vz", "content": content, **_DISK},
            "shared": {
                "type": "dir",
                "path": "/srv/shared",
                "content": "images,rootdir,snippets",
                "shared": 1,
                **_DISK,
            },
            "only2": {"type": "dir", "path": "/srv/only2", "content": "images", "nodes": "pve2", **_DISK},
        },
    }
