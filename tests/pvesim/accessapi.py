"""/access: tickets, users, tokens, roles, ACLs, effective permissions. Recorded from 9.2."""

import re
import uuid
from typing import Any

from tests.pvesim.access import AclKey, Identity, Token, User
from tests.pvesim.answers import Unordered
from tests.pvesim.auth import refuse
from tests.pvesim.call import Call, Routes
from tests.pvesim.errors import ApiError, denied, die, param_error
from tests.pvesim.formats import split_list

_TOP_PATHS = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")
_ACL_PATH = re.compile(
    r"/|/access(?:/(?:groups|realm)(?:/[^/]+)?)?|/mapping(?:/\w+(?:/[^/]+)?)?|/nodes(?:/[^/]+)?|/pool(?:/[^/]+){0,3}|"
    r"/sdn(?:/\w+(?:/[^/]+){0,3})?|/storage(?:/[^/]+)?|/vms(?:/[1-9][0-9]{2,})?"
)
# What the web interface's capabilities are made of: (section, path, privileges).
_CAPABILITIES = (
    ("vms", "/vms", r"VM\..*|Permissions\.Modify"),
    ("storage", "/storage", r"Datastore\..*|Permissions\.Modify"),
    ("nodes", "/nodes", r"Sys\..*|Permissions\.Modify"),
    ("sdn", "/sdn", r"SDN\..*|Permissions\.Modify"),
    ("dc", "/", r"Sys\.Audit|Sys\.Modify|SDN\..*"),
    ("access", "/access", r"(?:User|Group)\..*|Permissions\.Modify"),
    ("mapping", "/mapping", r"Mapping\..*|Permissions\.Modify"),
)


async def login(call: Call) -> Any:
    """A ticket for a user and its password, or for a ticket that is still good; 401 for anything else.

    Where a second factor is due, the right password only earns a challenge (`NeedTFA`), not recorded.
    """
    world = call.world
    now = world.clock.time()
    userid = call.params["username"]
    if "realm" in call.params:
        userid = f"{userid}@{call.params['realm']}"
    user = world.access.find_user(userid, now)
    if user is None or not _proves(call, user, now):
        raise ApiError(401, refuse("authentication failure").message)
    nonce = f"{world.rng.getrandbits(128):032x}"
    renewed = world.authenticator.ticket_user(call.params["password"], now) == userid
    if user.tfa and not renewed and "tfa-challenge" not in call.params:
        challenge = world.authenticator.issue_challenge(userid, now, nonce)
        return {"username": userid, "ticket": challenge, "CSRFPreventionToken": f"{now:08X}:{nonce}", "NeedTFA": 1}
    ticket, csrf = world.authenticator.issue_ticket(userid, now, nonce)
    who = Identity(userid)
    cap: dict[str, Any] = {}
    for section, path, pattern in _CAPABILITIES:
        granted = world.access.permissions(who, path)
        cap[section] = {privilege: 1 for privilege in granted if re.fullmatch(pattern, privilege)}
    answer: dict[str, Any] = {"username": userid, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": cap}
    if world.cluster_name and world.access.has(who, "/", "Sys.Audit"):
        answer["clustername"] = world.cluster_name
    return answer


def _proves(call: Call, user: User, now: int) -> bool:
    """Whether password, ticket or second factor is right."""
    authenticator, password = call.world.authenticator, call.params["password"]
    challenge = call.params.get("tfa-challenge")
    if challenge is not None:
        expected = f"totp:{user.tfa}"
        return authenticator.challenged_user(challenge, now) == user.userid and bool(user.tfa) and password == expected
    if authenticator.ticket_user(password, now) == user.userid:
        return True
    return user.password is not None and user.password == password


async def get_ticket(call: Call) -> Any:
    """A dummy for formatters."""
    return None


async def get_users(call: Call) -> Any:
    """Users, for those who may change or audit them."""
    if not call.may_any("/access/groups", "User.Modify", "Sys.Audit"):
        return []
    return Unordered(_user_entry(user) for user in call.world.access.users.values())


def _user_entry(user: User) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "userid": user.userid, "enable": int(user.enabled), "expire": user.expire,
        "realm-type": user.userid.rpartition("@")[2],
    }  # fmt: skip
    if user.email:
        entry["email"] = user.email
    if user.comment:
        entry["comment"] = user.comment
    return entry


async def create_user(call: Call) -> Any:
    """A new user."""
    userid = call.params["userid"]
    if userid in call.world.access.users:
        raise die(f"create user failed: user '{userid}' already exists")
    user = User(userid, call.params.get("password"), comment=call.params.get("comment", ""))
    user.groups = set(split_list(call.params.get("groups", "")))
    user.expire = int(call.params.get("expire", "0"))
    user.enabled = call.params.get("enable", "1") == "1"
    call.world.access.users[userid] = user


def _user(call: Call, what: str) -> User:
    user = call.world.access.users.get(call.params["userid"])
    if user is None:
        raise die(f"{what}no such user ('{call.params['userid']}')")
    return user


async def update_user(call: Call) -> Any:
    """Enable, disable, expire."""
    user = _user(call, "update user failed: ")
    user.enabled = call.params.get("enable", "1") == "1"
    if "expire" in call.params:
        user.expire = int(call.params["expire"])
    user.comment = call.params.get("comment", user.comment)


async def delete_user(call: Call) -> Any:
    """With its tokens and ACL entries."""
    access = call.world.access
    user = _user(call, "delete user failed: ")
    del access.users[user.userid]
    for token in [t for t in access.tokens.values() if t.userid == user.userid]:
        del access.tokens[token.full_id]
    for key in [k for k in access.acl if k.who.partition("!")[0] == user.userid]:
        del access.acl[key]


async def get_tokens(call: Call) -> Any:
    """A user's tokens, never their secrets."""
    tokens = [t for t in call.world.access.tokens.values() if t.userid == call.params["userid"]]
    return Unordered({"tokenid": t.name, "expire": t.expire, "privsep": int(t.privsep)} for t in tokens)


async def create_token(call: Call) -> Any:
    """A new token; the only time its secret is shown."""
    access = call.world.access
    user = _user(call, "")
    full_id = f"{user.userid}!{call.params['tokenid']}"
    if full_id in access.tokens:
        raise param_error(tokenid="Token already exists.")
    secret = str(uuid.UUID(int=call.world.rng.getrandbits(128), version=4))
    privsep = call.params.get("privsep", "1")
    access.tokens[full_id] = Token(
        user.userid, call.params["tokenid"], secret, privsep == "1", int(call.params.get("expire", "0"))
    )
    info: dict[str, Any] = {"privsep": privsep}
    if "expire" in call.params:
        info["expire"] = call.params["expire"]
    return {"full-tokenid": full_id, "value": secret, "info": info}


def _token(call: Call) -> Token:
    token = call.world.access.tokens.get(f"{call.params['userid']}!{call.params['tokenid']}")
    if token is None:
        raise die(f"no such token '{call.params['tokenid']}' for user '{call.params['userid']}'")
    return token


async def update_token(call: Call) -> Any:
    """Expiry and separation."""
    token = _token(call)
    if "expire" in call.params:
        token.expire = int(call.params["expire"])
    if "privsep" in call.params:
        token.privsep = call.flag("privsep")
    return {"expire": str(token.expire), "privsep": int(token.privsep)}


async def get_token(call: Call) -> Any:
    """One token."""
    token = _token(call)
    return {"expire": token.expire, "privsep": int(token.privsep)}


async def delete_token(call: Call) -> Any:
    """With its ACL entries."""
    access = call.world.access
    token = _token(call)
    del access.tokens[token.full_id]
    for key in [k for k in access.acl if k.kind == "token" and k.who == token.full_id]:
        del access.acl[key]


def _check_privileges(call: Call) -> set[str]:
    privileges = set(split_list(call.params.get("privs", "")))
    for privilege in sorted(privileges):
        if privilege not in call.world.access.all_privileges:
            raise param_error(privs=f"invalid format - invalid privilege '{privilege}'\n")
    return privileges


async def get_roles(call: Call) -> Any:
    """All roles."""
    custom = {name: frozenset(privileges) for name, privileges in call.world.access.custom_roles.items()}
    return Unordered(
        {"roleid": name, "privs": ",".join(sorted(privileges)), "special": int(name in call.world.access.builtin_roles)}
        for name, privileges in {**call.world.access.builtin_roles, **custom}.items()
    )


async def create_role(call: Call) -> Any:
    """A new role."""
    name, privileges = call.params["roleid"], _check_privileges(call)
    if name in call.world.access.builtin_roles or name in call.world.access.custom_roles:
        raise die(f"create role failed: role '{name}' already exists")
    call.world.access.custom_roles[name] = privileges


def _role(call: Call, what: str) -> str:
    name = call.params["roleid"]
    if name in call.world.access.builtin_roles:
        raise die(f"{what}auto-generated role '{name}' cannot be modified")
    if name not in call.world.access.custom_roles:
        raise die(f"{what}role '{name}' does not exist")
    return name


async def update_role(call: Call) -> Any:
    """Replace or extend."""
    privileges = _check_privileges(call)
    name = _role(call, "update role failed: ")
    roles = call.world.access.custom_roles
    roles[name] = roles[name] | privileges if call.flag("append") else privileges


async def get_role(call: Call) -> Any:
    """{privilege: 1}."""
    name = call.params["roleid"]
    if name not in call.world.access.builtin_roles and name not in call.world.access.custom_roles:
        raise die(f"role '{name}' does not exist")
    return dict.fromkeys(call.world.access.role_privileges(name), 1)


async def delete_role(call: Call) -> Any:
    """With the entries that grant it."""
    name = _role(call, "delete role failed: ")
    del call.world.access.custom_roles[name]
    for key in [k for k in call.world.access.acl if k.role == name]:
        del call.world.access.acl[key]


async def get_acl(call: Call) -> Any:
    """Entries, for those who may change or audit them."""
    if not call.may_any("/access", "Permissions.Modify", "Sys.Audit"):
        return []
    return Unordered(
        {"path": k.path, "type": k.kind, "ugid": k.who, "roleid": k.role, "propagate": int(propagates)}
        for k, propagates in call.world.access.acl.items()
    )


async def update_acl(call: Call) -> Any:
    """Add, or with `delete` remove, entries."""
    access = call.world.access
    path = "/" + "/".join(part for part in call.params["path"].split("/") if part)
    if not _ACL_PATH.fullmatch(path):
        raise param_error(path=f"invalid ACL path '{call.params['path']}'")
    targets = [
        (kind, who) for kind in ("user", "group", "token") for who in split_list(call.params.get(f"{kind}s", ""))
    ]
    if not targets:
        raise param_error(users="either 'users', 'groups' or 'tokens' is required.")
    for role in split_list(call.params["roles"]):
        if role not in call.world.access.builtin_roles and role not in access.custom_roles:
            raise die(f"ACL update failed: role '{role}' does not exist")
        for kind, who in targets:
            if kind == "user" and who not in access.users:
                raise die(f"ACL update failed: user '{who}' does not exist")
            if kind == "token" and who not in access.tokens:
                raise die(f"ACL update failed: token '{who}' does not exist")
            key = AclKey(path, kind, who, role)
            if call.flag("delete"):
                access.acl.pop(key, None)
            else:
                access.acl[key] = call.params.get("propagate", "1") == "1"


async def get_permissions(call: Call) -> Any:
    """Effective privileges by path, 1 = propagates. Of others only with Sys.Audit on /access."""
    access = call.world.access
    who = call.who
    asked = call.params.get("userid", who.auth_id)
    if asked != who.auth_id:
        call.require("/access", "Sys.Audit")
        userid, _, token = asked.partition("!")
        who = Identity(userid, token)
    if "path" in call.params:
        paths = {call.params["path"]}
    else:
        paths = {*_TOP_PATHS, *(key.path for key in access.acl)}
        paths |= {f"/vms/{vmid}" for vmid in access.vm_pool}
        paths |= {f"/storage/{storage}" for members in access.pool_storages.values() for storage in members}
    effective = {path: access.permissions(who, path) for path in paths}
    return {
        path: {privilege: int(propagates) for privilege, propagates in granted.items()}
        for path, granted in effective.items()
        if granted or "path" in call.params
    }


async def get_domains(call: Call) -> Any:
    """Realms; anybody may ask."""
    return Unordered(
        [
            {"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
            {"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
        ]
    )


async def change_password(call: Call) -> Any:
    """Not with a token."""
    if call.who.token:
        text = "URI '/access/password' not available with API token, need proper ticket.\n"
        raise ApiError(403, f"Permission check failed ({text})")
    if not call.who.is_root and call.params.get("userid") != call.who.userid:
        raise denied()
    _user(call, "").password = call.params.get("password", "")


ROUTES: Routes = {
    ("POST", "/access/ticket"): login,
    ("GET", "/access/ticket"): get_ticket,
    ("GET", "/access/users"): get_users,
    ("POST", "/access/users"): create_user,
    ("PUT", "/access/users/{userid}"): update_user,
    ("DELETE", "/access/users/{userid}"): delete_user,
    ("GET", "/access/users/{userid}/token"): get_tokens,
    ("POST", "/access/users/{userid}/token/{tokenid}"): create_token,
    ("PUT", "/access/users/{userid}/token/{tokenid}"): update_token,
    ("GET", "/access/users/{userid}/token/{tokenid}"): get_token,
    ("DELETE", "/access/users/{userid}/token/{tokenid}"): delete_token,
    ("GET", "/access/roles"): get_roles,
    ("POST", "/access/roles"): create_role,
    ("PUT", "/access/roles/{roleid}"): update_role,
    ("GET", "/access/roles/{roleid}"): get_role,
    ("DELETE", "/access/roles/{roleid}"): delete_role,
    ("GET", "/access/acl"): get_acl,
    ("PUT", "/access/acl"): update_acl,
    ("GET", "/access/permissions"): get_permissions,
    ("GET", "/access/domains"): get_domains,
    ("PUT", "/access/password"): change_password,
}
