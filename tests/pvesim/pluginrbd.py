"""Ceph block devices. Texts from the plugin's source, not recorded. Must not keep state."""

from tests.pvesim.errors import ApiError, die
from tests.pvesim.plugindir import ParsedName
from tests.pvesim.pluginlvm import LvmThinPlugin
from tests.pvesim.state import Storage

_FSID = "00000000-0000-4000-8000-00000000ceff"


class RbdPlugin(LvmThinPlugin):
    """Ceph block devices: `vm-<vmid>-*`, raw only, shared."""

    contents = frozenset(["images", "rootdir"])
    shared = True
    unrecorded = "all"
    size_step_bytes = 1 << 20
    deleting_missing_fails = True
    module = "/usr/share/perl5/PVE/Storage/RBDPlugin.pm line 671"

    def parse(self, storage: Storage, name: str) -> ParsedName:
        """Owner from the name."""
        try:
            return super().parse(storage, name)
        except ApiError as error:
            raise die(f"unable to parse rbd volume name '{name}'") from error

    def path(self, storage: Storage, name: str) -> str:
        """The image as QEMU opens it, or the kernel's device with krbd."""
        image = f"{storage.options.get('pool', 'rbd')}/{name}"
        return f"/dev/rbd-pve/{_FSID}/{image}" if str(storage.options.get("krbd", "0")) == "1" else f"rbd:{image}"

    def not_active(self, storage: Storage) -> ApiError:
        """The monitors do not answer."""
        return die("rbd error: rbd: couldn't connect to the cluster!")

    def list_entry(self, used_bytes: int, parent: str | None, ctime: int, content: str) -> dict[str, object]:
        """Nothing tells when it was made or what is used."""
        return {"parent": parent} if parent else {}

    def resize_lines(self, storage: Storage, name: str, wanted_bytes: int, real_bytes: int, *, live: bool) -> list[str]:
        """rbd resize shows its progress."""
        return ["Resizing image: 100% complete...done."]

    def rename_lines(self, storage: Storage, former: str, name: str) -> list[str]:
        """rbd rename prints nothing."""
        return []

    def exists_error(self, storage: Storage, name: str) -> ApiError:
        """rbd create's complaint."""
        return die(f"rbd create '{name}' error: rbd: create error: (17) File exists")

    def info_missing(self, storage: Storage, name: str) -> ApiError:
        """rbd info finds nothing."""
        return die(f"rbd info '{name}' error: rbd: error opening image {name}: (2) No such file or directory")

    def attach_missing(self, storage: Storage, name: str) -> ApiError:
        """The same, on activation."""
        return self.info_missing(storage, name)

    def delete_missing(self, storage: Storage, name: str) -> str:
        """rbd's snapshot listing fails first."""
        return f"rbd snap ls '{name}' error: rbd: error opening image {name}: (2) No such file or directory"

    def format_line(self, storage: Storage, name: str, fmt: str, size_bytes: int) -> list[str]:
        """rbd create prints nothing."""
        return []

    def in_use_error(self, storage: Storage, name: str) -> ApiError | None:
        """rbd rm refuses an image with watchers."""
        return die(f"rbd rm '{name}' error: rbd: error: image still has watchers")

    def freed_lines(self, name: str) -> list[str]:
        """rbd rm shows its progress."""
        return ["Removing image: 100% complete...done."]

    def snapshot_lines(self, name: str, snapshot: str, *, created: bool) -> list[str]:
        """rbd snap shows its progress."""
        return [f"{'Creating' if created else 'Removing'} snap: 100% complete...done."]

    def snapshot_missing(self, storage: Storage, name: str, snapshot: str, switch: str) -> tuple[list[str], str]:
        """rbd snap finds nothing."""
        verb = {"-a": "rollback", "-d": "rm"}[switch]
        return [], f"rbd snap {verb} error: rbd: error opening image {name}: (2) No such file or directory"
