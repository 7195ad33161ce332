"""The declarative permission checks of the API schema, with their texts (PVE::RPCEnvironment; 9.2 recorded).

They run before the parameters are looked at: a token without rights learns nothing about the object. Must not hold a
rule about a single call; checks in code are the handlers'.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.pvesim.access import Access, Identity
from tests.pvesim.errors import ApiError, denied
from tests.pvesim.privileges import MONITOR
from tests.pvesim.release import LATEST, Release


class PermissionChecker:
    """Evaluates `permissions` entries of the schema for one caller."""

    def __init__(self, access: Access, release: Release = LATEST) -> None:
        self._access = access
        self._release = release

    def check_endpoint(self, who: Identity, permissions: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        """Raise 403 unless the caller may call at all."""
        if who.is_root or permissions.get("user") in ("all", "world"):
            return
        check = permissions.get("check")
        if check is None:
            raise ApiError(403, "Permission check failed (user != root@pam)")
        self._evaluate(who, check, params, silent=False)

    def require(self, who: Identity, path: str, *privileges: str) -> None:
        """Every one of the privileges; 403 names the first that is missing."""
        granted = self._access.permissions(who, path)
        for privilege in privileges:
            if privilege not in granted:
                raise denied(path, privilege)

    def require_any(self, who: Identity, path: str, *privileges: str) -> None:
        """One of the privileges; 403 names them all."""
        if not self._access.has_any(who, path, privileges):
            raise denied(path, *privileges)

    def _evaluate(self, who: Identity, check: Sequence[Any], params: Mapping[str, Any], *, silent: bool) -> bool:
        kind = check[0]
        if kind == "and":
            return all(self._evaluate(who, part, params, silent=silent) for part in check[1:])
        if kind == "or":
            if any(self._evaluate(who, part, params, silent=True) for part in check[1:]):
                return True
            if silent:
                return False
            raise denied()
        allowed, path, privileges = self._leaf(who, check, params)
        if not allowed and not silent:
            raise denied(path, *privileges)
        return allowed

    def _leaf(self, who: Identity, check: Sequence[Any], params: Mapping[str, Any]) -> tuple[bool, str, Sequence[str]]:
        match check[0]:
            case "perm":
                return self._perm(who, check, params)
            case "perm-modify":
                return self._perm_modify(who, _fill(str(check[1]), params))
            case "userid-param" if check[1] == "self":
                return params.get("userid") == who.userid and not who.token, "", ()
            case "userid-param":
                realm = str(params.get("userid", "")).partition("@")[2]
                path = f"/access/realm/{realm}"
                return self._access.has(who, path, str(check[1])), path, [str(check[1])]
            case "userid-group":
                return self._access.has_any(who, "/access/groups", check[1]), "/access/groups", list(check[1])
            case _:
                return False, "", ()

    def _perm(self, who: Identity, check: Sequence[Any], params: Mapping[str, Any]) -> tuple[bool, str, Sequence[str]]:
        options = dict(zip(check[3::2], check[4::2], strict=False))
        if "require_param" in options and options["require_param"] not in params:
            return False, "", ()
        path = _fill(str(check[1]), params)
        granted = self._access.permissions(who, path)
        wanted = self._named(check[2])
        if options.get("any"):
            return any(p in granted for p in wanted), path, wanted
        missing = [p for p in wanted if p not in granted]
        return not missing, path, missing[:1]

    def _named(self, privileges: Sequence[str]) -> list[str]:
        """As this release calls them; each once only where several have become one."""
        if self._release.guest_agent_privileges:
            return list(privileges)
        return list(dict.fromkeys(MONITOR if p.startswith("VM.GuestAgent.") else p for p in privileges))

    def _perm_modify(self, who: Identity, path: str) -> tuple[bool, str, Sequence[str]]:
        privileges = ["Permissions.Modify"]
        for prefix, extra in (("/storage", "Datastore.Allocate"), ("/vms", "VM.Allocate"), ("/pool", "Pool.Allocate")):
            if path.startswith(f"{prefix}/"):
                privileges.insert(0, extra)
        return self._access.has_any(who, path, privileges), path, privileges


def _fill(template: str, params: Mapping[str, Any]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: str(params.get(m[1], "")), template)
