"""UPIDs, the names of Proxmox VE's tasks. Pure."""

import re
from dataclasses import dataclass

_FORM = re.compile(
    r"UPID:(?P<node>[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?):(?P<pid>[0-9A-Fa-f]{8}):(?P<pstart>[0-9A-Fa-f]{8,9})"
    r":(?P<starttime>[0-9A-Fa-f]{8}):(?P<type>[^:\s]+):(?P<id>[^:\s]*):(?P<user>[^:\s]+):"
)


@dataclass(frozen=True, slots=True)
class Upid:
    """`UPID:node:pid:pstart:starttime:type:id:user:`; pid, pstart (jiffies) and starttime (Unix seconds) are
    hexadecimal.

    `user` is `user@realm` or `user@realm!token`. A task is asked for on `node`, wherever the request went.
    """

    node: str
    pid: int
    pstart: int
    starttime: int
    type: str
    id: str
    user: str

    @classmethod
    def parse(cls, text: str) -> "Upid":
        """The UPID of a text. ValueError when it is none."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"not a UPID: {text!r}")
        part = match.groupdict()
        return cls(
            node=part["node"],
            pid=int(part["pid"], 16),
            pstart=int(part["pstart"], 16),
            starttime=int(part["starttime"], 16),
            type=part["type"],
            id=part["id"],
            user=part["user"],
        )

    def __str__(self) -> str:
        return (
            f"UPID:{self.node}:{self.pid:08X}:{self.pstart:08X}:{self.starttime:08X}:{self.type}:{self.id}:{self.user}:"
        )
