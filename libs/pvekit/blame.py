"""Which member of a batch a refused config write is about. Pure.

A write fails as a whole (nothing is plugged) or in part; either way the server says what was wrong by key, by volume,
by storage, or not at all.
"""

import re
from collections.abc import Mapping, Sequence

from pvekit.errors import HotplugFailed, ParameterError, Protected, PveDenied, PveError
from pvekit.vm_config_plan import Wish

_STORAGE = re.compile(r"storage '(?P<name>[^']+)'|/storage/(?P<path>[^,\s)]+)")


def blamed(error: PveError, keys: Mapping[Wish, Sequence[str]]) -> list[Wish]:
    """The wishes that the error names; all of them when it is about the VM or there is but one; [] when it names none.

    `keys` are the config keys that the write touched for each wish.
    """
    wishes = list(keys)
    if len(wishes) == 1:
        return wishes
    if isinstance(error, Protected):
        return [wish for wish in wishes if not wish.attach] or wishes
    if isinstance(error, HotplugFailed | ParameterError):
        named = set(error.texts if isinstance(error, HotplugFailed) else error.errors)
        if found := [wish for wish in wishes if named.intersection(keys[wish])]:
            return found
    for name_of in (_volid, _volume_name):
        if found := [wish for wish in wishes if _names(error.text, name_of(wish))]:
            return found
    storages = {match["name"] or match["path"] for match in _STORAGE.finditer(error.text)}
    if found := [wish for wish in wishes if wish.volid.partition(":")[0] in storages]:
        return found
    return wishes if isinstance(error, PveDenied) else []


def text_for(error: PveError, keys: Sequence[str]) -> str:
    """What the error says about these keys; its whole text when it does not tell them apart."""
    if isinstance(error, HotplugFailed):
        texts = [f"{key}: {' '.join(error.texts[key].split())}" for key in keys if key in error.texts]
        if texts:
            return "; ".join(texts)
    return error.text


def only_about(refusal: PveError, keys: tuple[str, ...]) -> PveError:
    """The refusal as far as it is about these keys."""
    if not isinstance(refusal, HotplugFailed):
        return refusal
    own = HotplugFailed(
        text_for(refusal, keys), call=refusal.call, status=refusal.status, reason=refusal.reason, upid=refusal.upid
    )
    own.texts = {key: why for key, why in refusal.texts.items() if key in keys}
    return own


def _volid(wish: Wish) -> str:
    return wish.volid


def _volume_name(wish: Wish) -> str:
    return wish.volid.rpartition("/")[2] if "/" in wish.volid else wish.volid.partition(":")[2]


def _names(text: str, name: str) -> bool:
    """Whether the text names exactly this: `vm-9999-pvc-1` is not named by `vm-9999-pvc-10` or `vm-9999-pvc-1.raw`."""
    return re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-]|\.[A-Za-z0-9])", text) is not None
