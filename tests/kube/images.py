"""The test images, made of programs of this machine, and a registry on 127.0.0.1 that serves them under any name.

containerd asks it instead of the registries that a Pod's image names, so Pods run as they are written, pull policies
included. Must not need a network.
"""

import hashlib
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAUSE = ["/bin/busybox", "tail", "-f", "/dev/null"]
"""The program that holds a Pod's namespaces need only wait."""

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Image:
    """Manifest and blobs by digest."""

    manifest: bytes
    blobs: Mapping[str, bytes]


def build_images(busybox: Path, agnhost: Path) -> dict[str, Image]:
    """By the last part of their names. `busybox` must be linked statically."""
    applets = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "/bin/busybox" for name in applets if name != "busybox"}
    shell: dict[str, bytes | str] = {"bin/busybox": busybox.read_bytes()} | links
    small = build_image(shell, [])
    return {
        "busybox": small,
        "pause": build_image(shell, PAUSE),
        "agnhost": build_image(shell | {"agnhost": agnhost.read_bytes()}, ["/agnhost"], ["pause"]),
    }


def build_image(files: Mapping[str, bytes | str], entrypoint: Sequence[str], command: Sequence[str] = ()) -> Image:
    """One layer; a string is the target of a symbolic link, bytes are an executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
        for folder in sorted({*folders, "tmp", "etc", "proc", "sys", "dev", "root", "mnt", "var"}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        for name, content in (("etc/passwd", passwd), ("etc/group", b"root:x:0:\n")):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o644, len(content)
            tar.addfile(entry, io.BytesIO(content))
    layer = buffer.getvalue()
    settings = {"Entrypoint": list(entrypoint), "Cmd": list(command or ([] if entrypoint else ["sh"]))}
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": settings | {"Env": ["PATH=/bin:/usr/bin:/sbin:/"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, config),
        "layers": [_descriptor(_LAYER, layer)],
    }
    return Image(json.dumps(manifest).encode(), {_digest(blob): blob for blob in (config, layer)})


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """Serves images by the last part of their name, whatever registry and tag was asked for."""

    def __init__(self, images: Mapping[str, Image]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(images))
        self._thread = threading.Thread(target=self._server.serve_forever, name="bench-registry", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serves until `close`."""
        self._thread.start()

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(images: Mapping[str, Image]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/v2":
                self._send(200, "application/json", b"{}")
                return
            name, _, rest = path.removeprefix("/v2/").rpartition("/")
            image = images.get(name.removesuffix("/manifests").removesuffix("/blobs").rpartition("/")[2])
            if image is None:
                self._send(404, "application/json", b'{"errors": [{"code": "NAME_UNKNOWN"}]}')
            elif name.endswith("/manifests"):
                self._send(200, _MANIFEST, image.manifest)
            elif rest in image.blobs:
                self._send(200, "application/octet-stream", image.blobs[rest])
            else:
                self._send(404, "application/json", b'{"errors": [{"code": "BLOB_UNKNOWN"}]}')

        def _send(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """containerd's own log tells of pulls."""

    return Handler
