"""Generate libs/csikit/pb from proto/csi/v1/csi.proto, or prove with `--check` that it is fresh.

The output is committed, so nobody needs protoc to install or run. The proto file is given to protoc under the virtual
path `csikit/pb/csi.proto`: the modules then import each other as `csikit.pb…` and need no editing. Every file protoc
does not make but the package needs (`__init__.py`) is written here too, so that the folder can be compared as a whole.
"""

import argparse
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "proto" / "csi" / "v1"
LIBS = ROOT / "libs"
PACKAGE = Path("csikit") / "pb"
INIT_TEXT = (
    '"""Code generated from proto/csi/v1/csi.proto by tools/gen_proto.py. Do not edit: `make generate` renews it."""\n'
)


def generate(out_root: Path) -> None:
    """Write the whole package under `out_root/csikit/pb`; raises SystemExit with protoc's own status when it fails."""
    scripts = Path(sysconfig.get_path("scripts"))
    well_known = resources.files("grpc_tools") / "_proto"
    (out_root / PACKAGE).mkdir(parents=True, exist_ok=True)
    status = protoc.main(
        [
            "protoc",
            f"-I{PACKAGE.as_posix()}={PROTO_DIR}",
            f"-I{well_known}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out_root}",
            f"--grpc_python_out={out_root}",
            f"--mypy_out={out_root}",
            # Concrete: an RPC that a servicer leaves out stays UNIMPLEMENTED instead of failing the type check.
            f"--mypy_grpc_out=generate_concrete_servicer_stubs:{out_root}",
            f"{PACKAGE.as_posix()}/csi.proto",
        ]
    )
    if status != 0:
        sys.exit(f"gen_proto: protoc refused {PROTO_DIR / 'csi.proto'} (status {status}); its own text is above")
    (out_root / PACKAGE / "__init__.py").write_text(INIT_TEXT, encoding="utf-8")


def contents(package: Path) -> dict[str, bytes]:
    """Every file of the package by name; byte-code is not part of it."""
    if not package.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in package.iterdir() if path.is_file()}


def differences(committed: dict[str, bytes], fresh: dict[str, bytes]) -> list[str]:
    """What is wrong with the committed files, one line each; empty when they are fresh."""
    problems = [f"{name}: missing" for name in sorted(fresh.keys() - committed.keys())]
    problems += [f"{name}: not generated from the proto file" for name in sorted(committed.keys() - fresh.keys())]
    problems += [f"{name}: stale" for name in sorted(fresh.keys() & committed.keys()) if fresh[name] != committed[name]]
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0: written, or fresh. 1: stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the committed files are stale")
    parser.add_argument("--libs", type=Path, default=LIBS, help="folder that holds csikit/ (default: the repository's)")
    args = parser.parse_args(argv)
    target: Path = args.libs / PACKAGE
    with tempfile.TemporaryDirectory(prefix="gen-proto-") as scratch:
        generate(Path(scratch))
        fresh = contents(Path(scratch) / PACKAGE)
    problems = differences(contents(target), fresh)
    if args.check:
        for problem in problems:
            print(f"gen_proto: {target / problem}", file=sys.stderr)
        if problems:
            print("gen_proto: run `make generate` (tools/gen_proto.py) and commit the result", file=sys.stderr)
        return 1 if problems else 0
    target.mkdir(parents=True, exist_ok=True)
    for name in contents(target).keys() - fresh.keys():
        (target / name).unlink()
    for name, body in fresh.items():
        (target / name).write_bytes(body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
