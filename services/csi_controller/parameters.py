# ruff: noqa: E501 - the table below has one line a parameter
"""StorageClass and VolumeAttributesClass parameters: one table, one line each. Pure.

Names are those of sergelogvinov/proxmox-csi-plugin 0.19. What differs on purpose: a word that is none (`ssd: "ture"`)
and a key that nobody knows are errors at CreateVolume, where the peer ignored them. A volume context that is already
stored, by us or by the peer, is read leniently: whatever is not in the table is somebody else's.

Must not know the storage; what a type cannot do is found out in `volumes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from appkit.errors import InvalidRequest

Kind = Literal["string", "bool", "int", "enum"]
Target = Literal["placement", "drive", "mkfs", "replication"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `default` is what an unset one means ("" = nothing is sent); `drive` the QEMU options it sets."""

    key: str
    kind: Kind
    default: str
    target: Target
    text: str
    drive: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    mutable: bool = False
    required: bool = False


# fmt: off
TABLE: tuple[Parameter, ...] = (
    Parameter("storage", "string", "", "placement", "Proxmox VE storage to allocate from.", required=True),
    Parameter("storageFormat", "enum", "", "placement", "Image format where the storage type has a choice; raw if unset.", words=("raw", "qcow2")),
    Parameter("aio", "enum", "", "drive", "Asynchronous I/O engine of QEMU.", drive=("aio",), words=("native", "threads", "io_uring")),
    Parameter("backup", "bool", "0", "drive", "Include the disk in backups of the VM; a restored VM may revive it.", drive=("backup",), mutable=True),
    Parameter("cache", "enum", "", "drive", "QEMU cache mode.", drive=("cache",), words=("directsync", "none", "unsafe", "writeback", "writethrough")),
    Parameter("discard", "enum", "", "drive", "Pass TRIM on to the storage; `on` if unset and ssd is true.", drive=("discard",), words=("on", "ignore")),
    Parameter("iothread", "bool", "1", "drive", "A QEMU I/O thread for the disk (virtio-scsi-single).", drive=("iothread",)),
    Parameter("ssd", "bool", "", "drive", "Tell the guest that the disk is an SSD; also turns discard on.", drive=("ssd",)),
    Parameter("diskIOPS", "int", "", "drive", "Limit of read and of write operations a second; 0 is no limit.", drive=("iops_rd", "iops_wr"), mutable=True),
    Parameter("diskMBps", "int", "", "drive", "Limit of megabytes read and written a second; 0 is no limit.", drive=("mbps_rd", "mbps_wr"), mutable=True),
    Parameter("blockSize", "int", "", "mkfs", "Block size given to mkfs on the node."),
    Parameter("inodeSize", "int", "", "mkfs", "Inode size given to mkfs on the node."),
    Parameter("replicate", "bool", "0", "replication", "Replicate the disk to other hosts (ZFS); not done yet.", drive=("replicate",)),
    Parameter("replicateSchedule", "string", "", "replication", "Calendar event of the replication."),
    Parameter("replicateZones", "string", "", "replication", "Hosts that get a replica, separated by commas."),
)
# fmt: on

_BY_KEY: Mapping[str, Parameter] = MappingProxyType({each.key: each for each in TABLE})
# Put in by sidecars (--extra-create-metadata, kubelet's pod information), meant for nobody here.
_SIDECAR_PREFIXES = ("csi.storage.k8s.io/", "storage.kubernetes.io/")
_TRUE = frozenset({"1", "t", "true", "yes", "on"})
_FALSE = frozenset({"0", "f", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class VolumeParameters:
    """Validated parameters in canonical form: booleans "1"/"0", numbers in decimal, unset keys absent."""

    values: Mapping[str, str]

    @property
    def storage(self) -> str:
        """The storage to allocate from."""
        return self.values.get("storage", "")

    @property
    def storage_format(self) -> str:
        """`raw`, `qcow2`, or "" when the choice is ours."""
        return self.values.get("storageFormat", "")

    @property
    def replicated(self) -> bool:
        """Whether replication was asked for."""
        return self.values.get("replicate") == "1"

    def context(self) -> dict[str, str]:
        """The volume context that is stored in the PersistentVolume: every set key, and the defaults that act."""
        defaults = {each.key: each.default for each in TABLE if each.default}
        return {**defaults, **self.values}


def parse_parameters(raw: Mapping[str, str], mutable: Mapping[str, str] | None = None) -> VolumeParameters:
    """Read StorageClass parameters, overlaid with those of a VolumeAttributesClass.

    Empty strings count as unset. Raises InvalidRequest that lists every problem: unknown key (with the nearest known
    one), a word or number that is none, an immutable key in a VolumeAttributesClass, `storage` missing.
    """
    problems: list[str] = []
    values = {key: _parsed(key, text, problems) for key, text in raw.items() if text and not _is_sidecars(key)}
    for key, text in (mutable or {}).items():
        parameter = _BY_KEY.get(key)
        if parameter is not None and not parameter.mutable:
            problems.append(f"{key!r} cannot be changed by a VolumeAttributesClass (only {', '.join(_mutable_keys())})")
        elif text:
            values[key] = _parsed(key, text, problems)
    problems += [f"{each.key!r} is required" for each in TABLE if each.required and not values.get(each.key)]
    if problems:
        raise InvalidRequest("parameters: " + "; ".join(problems))
    return VolumeParameters(MappingProxyType(values))


def drive_options(context: Mapping[str, str]) -> dict[str, str]:
    """The QEMU drive options for a stored volume context, ours or the peer's.

    The peer stored what a VolumeAttributesClass had set under QEMU's own names (`iops_rd`); those win over the class's.
    """
    options: dict[str, str] = {}
    for parameter in TABLE:
        value = _stored(parameter, context.get(parameter.key, ""))
        for name in parameter.drive:
            own = _stored(parameter, context.get(name, "")) if parameter.mutable else ""
            if (chosen := own or value) and not (parameter.kind == "int" and chosen == "0"):
                options[name] = chosen
    if options.get("ssd") == "1":
        options.setdefault("discard", "on")
    return options


def _is_sidecars(key: str) -> bool:
    return key.startswith(_SIDECAR_PREFIXES)


def _mutable_keys() -> list[str]:
    return [each.key for each in TABLE if each.mutable]


def _parsed(key: str, text: str, problems: list[str]) -> str:
    parameter = _BY_KEY.get(key)
    if parameter is None:
        folded = {known.lower(): known for known in _BY_KEY}
        near = get_close_matches(key.lower(), folded, n=1)
        hint = f" (did you mean {folded[near[0]]!r}?)" if near else f" (known: {', '.join(_BY_KEY)})"
        problems.append(f"{key!r} is not a parameter of this driver{hint}")
        return text
    try:
        return _canonical(parameter, text)
    except ValueError as error:
        problems.append(f"{key}={text!r}: {error}")
        return text


def _canonical(parameter: Parameter, text: str) -> str:
    if parameter.kind == "bool":
        folded = text.strip().lower()
        if folded not in _TRUE | _FALSE:
            raise ValueError("true or false is expected")
        return "1" if folded in _TRUE else "0"
    if parameter.kind == "int":
        if not (text.isascii() and text.isdigit()):
            raise ValueError("a whole number, 0 or more, is expected")
        return str(int(text))
    if parameter.kind == "enum" and text not in parameter.words:
        raise ValueError(f"one of {', '.join(parameter.words)} is expected")
    return text


def _stored(parameter: Parameter, text: str) -> str:
    """A stored value in canonical form; the default for one that is unset or unreadable."""
    try:
        return _canonical(parameter, text) if text else parameter.default
    except ValueError:
        return parameter.default
