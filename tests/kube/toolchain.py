"""The bench's programs, built from the Go modules pinned in `tools/` into the user's cache.

One module graph, one program after another (two linkers at once exceed a small machine's memory), each only when
somebody asks for it and only once per state of the pins. Must not start any. Go is looked for, never installed.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
SNAPSHOT_CLIENT = "github.com/kubernetes-csi/external-snapshotter/client/v8"
KUBERNETES_VERSION = "v1.37.2"
GO_VERSION = (1, 26)
FIRST_GO_THAT_FETCHES_ANOTHER = (1, 21)

_KUBERNETES = "k8s.io/kubernetes"
_CSI = "github.com/kubernetes-csi"
# The order is the order of building: the big shared packages first, so that every later program is cheap.
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": f"{_KUBERNETES}/cmd/kube-apiserver",
    "kube-controller-manager": f"{_KUBERNETES}/cmd/kube-controller-manager",
    "kube-scheduler": f"{_KUBERNETES}/cmd/kube-scheduler",
    "kubectl": f"{_KUBERNETES}/cmd/kubectl",
    "kubelet": f"{_KUBERNETES}/cmd/kubelet",
    "agnhost": f"{_KUBERNETES}/test/images/agnhost",
    "csi-provisioner": f"{_CSI}/external-provisioner/v6/cmd/csi-provisioner",
    "csi-attacher": f"{_CSI}/external-attacher/v4/cmd/csi-attacher",
    "csi-resizer": f"{_CSI}/external-resizer/v2/cmd/csi-resizer",
    "csi-snapshotter": f"{_CSI}/external-snapshotter/v8/cmd/csi-snapshotter",
    "snapshot-controller": f"{_CSI}/external-snapshotter/v8/cmd/snapshot-controller",
    "csi-sanity": f"{_CSI}/csi-test/v5/cmd/csi-sanity",
    "e2e.test": f"{_KUBERNETES}/test/e2e",
}
BENCH = tuple(name for name in PROGRAMS if name not in ("csi-sanity", "e2e.test"))

_VERSION = "k8s.io/component-base/version"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-p=2 -buildvcs=false -mod=readonly"}
_FLAGS = (
    "-trimpath",
    "-ldflags",
    f"-s -w -X {_VERSION}.gitVersion={KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=37",
)


class ToolsMissing(Exception):
    """Something has to be installed first; the text says what and how."""


@dataclass(frozen=True)
class Toolchain:
    """Where the programs of the present pins are, whether built or not."""

    folder: Path

    def path(self, name: str) -> Path:
        """Of one program."""
        return self.folder / name

    @property
    def snapshot_crds(self) -> Path:
        """The folder with the CustomResourceDefinitions of snapshots."""
        return self.path("crds")

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those not yet built, in the order of building."""
        return [name for name in PROGRAMS if name in names and not self.path(name).exists()]

    def build(self, names: Sequence[str]) -> None:
        """Builds what is missing and says how long each took; raises ToolsMissing without a usable Go."""
        if not self.missing(names) and self.snapshot_crds.exists():
            return
        go = find_go()
        self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder.parent / "lock"):
            if not self.snapshot_crds.exists():
                self._keep_snapshot_crds(go)
            todo = self.missing(names)
            for number, name in enumerate(todo, 1):
                sys.stdout.write(f"Building {name} ({number} of {len(todo)}) ... ")
                sys.stdout.flush()
                started = time.monotonic()
                self._build_one(go, name)
                size_mb = self.path(name).stat().st_size / 1e6
                sys.stdout.write(f"{time.monotonic() - started:.0f} s, {size_mb:.0f} MB\n")
                sys.stdout.flush()

    def _build_one(self, go: Path, name: str) -> None:
        new = self.path(f".{name}.new")
        # `go test -c` would vet every dependency of the suite first.
        verb = ("test", "-vet=off", "-c") if name == "e2e.test" else ("build",)
        command = [str(go), *verb, *_FLAGS, "-o", str(new), PROGRAMS[name]]
        done = subprocess.run(
            command, cwd=TOOLS, env=os.environ | _ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise ToolsMissing(f"go could not build {name}:\n{done.stderr.strip()[-3000:]}")
        new.rename(self.path(name))

    def _keep_snapshot_crds(self, go: Path) -> None:
        """They lie in the sources of a module of the graph."""
        done = subprocess.run(
            [str(go), "list", "-m", "-f", "{{.Dir}}", SNAPSHOT_CLIENT],
            cwd=TOOLS, env=os.environ | _ENVIRONMENT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        new = self.path(".crds.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for file in sorted((Path(done.stdout.strip()) / "config" / "crd").glob("*.storage.k8s.io_*.yaml")):
            (new / file.name).write_bytes(file.read_bytes())
        new.rename(self.snapshot_crds)


def toolchain() -> Toolchain:
    """That of the pins and flags in this repository."""
    digest = hashlib.sha256(repr((_FLAGS, _ENVIRONMENT, PROGRAMS)).encode())
    for file in ("go.mod", "go.sum"):
        digest.update((TOOLS / file).read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Toolchain(cache / "pvecloud" / "kube-tools" / digest.hexdigest()[:16])


def find_go() -> Path:
    """The `go` command; raises ToolsMissing when there is none, or one too old to fetch the version it needs."""
    needed = ".".join(map(str, GO_VERSION))
    found = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if not found:
        raise ToolsMissing(f"Go is not installed; the bench's programs are built with Go {needed}: https://go.dev/dl")
    text = subprocess.run([found, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in text.strip().removeprefix("go").split(".")[:2] if part.isdigit())
    if version < FIRST_GO_THAT_FETCHES_ANOTHER:
        raise ToolsMissing(f"{found} is {text.strip() or 'unusable'}; the bench's programs need Go {needed}")
    return Path(found)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One builder at a time, whoever started it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stdout.write("Another process builds these programs; waiting for it.\n")
            sys.stdout.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """`python -m tests.kube.toolchain [NAME...]`: builds these, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.toolchain", description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PROGRAMS], metavar="NAME")
    names = parser.parse_args().names or list(PROGRAMS)
    tools = toolchain()
    try:
        tools.build(names)
    except ToolsMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Built: {tools.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
