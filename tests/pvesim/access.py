"""Users, API tokens, roles and access-control entries, and what follows from them: who may do what where.

Must not know a request; `permissions.py` asks this module, `accessapi.py` changes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.pvesim.privileges import ALL_PRIVILEGES, BUILTIN_ROLES, in_release_8
from tests.pvesim.release import LATEST, Release


@dataclass
class User:
    """`name@realm`; `password` None cannot log in. `tfa` is the code of a second factor, "" without one."""

    userid: str
    password: str | None = None
    enabled: bool = True
    expire: int = 0
    comment: str = ""
    email: str = ""
    tfa: str = ""
    groups: set[str] = field(default_factory=set)


@dataclass
class Token:
    """An API token `user@realm!name` and its secret."""

    userid: str
    name: str
    secret: str
    privsep: bool = True
    expire: int = 0
    comment: str = ""

    @property
    def full_id(self) -> str:
        """`user@realm!name`."""
        return f"{self.userid}!{self.name}"


@dataclass(frozen=True)
class Identity:
    """Who asks: a user by ticket (`token` "") or a token of that user."""

    userid: str
    token: str = ""

    @property
    def auth_id(self) -> str:
        """As UPIDs name it."""
        return f"{self.userid}!{self.token}" if self.token else self.userid

    @property
    def is_root(self) -> bool:
        """root@pam itself; its tokens are not."""
        return self.userid == "root@pam" and not self.token


@dataclass(frozen=True)
class AclKey:
    """One entry's place: kind is user, group or token."""

    path: str
    kind: str
    who: str
    role: str


class Access:
    """The whole of user.cfg."""

    def __init__(self, release: Release = LATEST) -> None:
        nine = release.guest_agent_privileges
        self.all_privileges = ALL_PRIVILEGES if nine else in_release_8(ALL_PRIVILEGES)
        self.builtin_roles = {
            role: privileges if nine else in_release_8(privileges) for role, privileges in BUILTIN_ROLES.items()
        }
        self.users: dict[str, User] = {"root@pam": User("root@pam")}
        self.tokens: dict[str, Token] = {}
        self.custom_roles: dict[str, set[str]] = {}
        self.acl: dict[AclKey, bool] = {}
        self.vm_pool: dict[int, str] = {}
        self.pool_storages: dict[str, set[str]] = {}
        self.pools: dict[str, str] = {}

    def role_privileges(self, role: str) -> frozenset[str]:
        """What a role grants; an unknown one nothing."""
        if role in self.builtin_roles:
            return self.builtin_roles[role]
        return frozenset(self.custom_roles.get(role, ()))

    def find_user(self, userid: str, now: int) -> User | None:
        """The user, if it exists and may log in now."""
        user = self.users.get(userid)
        if user is None or not user.enabled or (user.expire and user.expire < now):
            return None
        return user

    def forget_vm(self, vmid: int) -> None:
        """A destroyed VM leaves its pool, and every ACL entry on its own path goes."""
        self.vm_pool.pop(vmid, None)
        for key in [key for key in self.acl if key.path == f"/vms/{vmid}"]:
            del self.acl[key]

    def permissions(self, who: Identity, path: str) -> dict[str, bool]:
        """{privilege: propagates} on a path. A privilege-separated token has the intersection with its user's."""
        if who.token:
            token = self.tokens.get(who.auth_id)
            if token is None:
                return {}
            users = self.permissions(Identity(who.userid), path)
            if not token.privsep:
                return users
            own = self._granted(self._roles("token", token.full_id, frozenset(), path))
            return {privilege: own[privilege] and users[privilege] for privilege in own if privilege in users}
        if who.userid == "root@pam":
            return dict.fromkeys(self.all_privileges, True)
        user = self.users.get(who.userid)
        if user is None:
            return {}
        return self._granted(self._roles("user", user.userid, frozenset(user.groups), path))

    def has(self, who: Identity, path: str, privilege: str) -> bool:
        """Whether the privilege is there."""
        return privilege in self.permissions(who, path)

    def has_any(self, who: Identity, path: str, privileges: Iterable[str]) -> bool:
        """Whether one of them is there."""
        granted = self.permissions(who, path)
        return any(privilege in granted for privilege in privileges)

    def _granted(self, roles: Mapping[str, bool]) -> dict[str, bool]:
        granted: dict[str, bool] = {}
        for role, propagates in roles.items():
            for privilege in self.role_privileges(role):
                granted[privilege] = granted.get(privilege, False) or propagates
        return granted

    def _roles(self, kind: str, who: str, groups: frozenset[str], path: str) -> dict[str, bool]:
        roles = self._roles_on(kind, who, groups, path)
        if "NoAccess" in roles:
            return {"NoAccess": roles["NoAccess"]}
        for pool in self._pools_of(path):
            for role in self._roles_on(kind, who, groups, f"/pool/{pool}"):
                # What a pool grants to its members ends there.
                roles.setdefault(role, False)
        return roles

    def _pools_of(self, path: str) -> list[str]:
        parts = path.split("/")
        if len(parts) == 3 and parts[1] == "vms" and parts[2].isdigit():
            pool = self.vm_pool.get(int(parts[2]))
            return [pool] if pool else []
        if len(parts) == 3 and parts[1] == "storage":
            return [pool for pool, storages in self.pool_storages.items() if parts[2] in storages]
        return []

    def _roles_on(self, kind: str, who: str, groups: frozenset[str], path: str) -> dict[str, bool]:
        """Walk down from "/": a deeper level with an entry replaces what came from above; users before groups."""
        roles: dict[str, bool] = {}
        for level in _levels(path):
            final = level == path
            own: dict[str, bool] = {}
            grouped: dict[str, bool] = {}
            for key, propagates in self.acl.items():
                if key.path != level or not (final or propagates):
                    continue
                if key.kind == kind and key.who == who:
                    own[key.role] = propagates
                elif key.kind == "group" and key.who in groups:
                    grouped[key.role] = propagates
            if own or grouped:
                roles = own or grouped
        return roles


def _levels(path: str) -> list[str]:
    levels = ["/"]
    current = ""
    for part in [piece for piece in path.split("/") if piece]:
        current += f"/{part}"
        levels.append(current)
    return levels
