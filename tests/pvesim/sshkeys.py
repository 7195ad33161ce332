"""Are these SSH public keys? As ssh-keygen would say, for the common kinds. Pure."""

import base64
import binascii
import itertools
import struct
from urllib.parse import unquote

from tests.pvesim.errors import die

_BODY_BYTES = {"ssh-ed25519": 51}


def check_ssh_keys(encoded: str) -> None:
    """Raise 500 unless every line of the percent-encoded text is a public key."""
    for line in unquote(encoded).splitlines():
        if line.strip() and not line.startswith("#") and not _is_key(line.split()):
            raise die("SSH public key validation error")


def _is_key(words: list[str]) -> bool:
    for kind, blob in itertools.pairwise(words):
        if not kind.startswith(("ssh-", "ecdsa-", "sk-")):
            continue
        try:
            raw = base64.b64decode(blob, validate=True)
        except binascii.Error:
            return False
        if len(raw) < 4 + len(kind) or struct.unpack(">I", raw[:4])[0] != len(kind):
            return False
        return raw[4 : 4 + len(kind)] == kind.encode() and len(raw) == _BODY_BYTES.get(kind, len(raw))
    return False
