"""From the recordings' names for callers to headers that the simulated world accepts.

Token secrets and tickets are the world's own; the recorded ones are masked. Must not give a caller rights: users,
tokens and ACLs come from the replayed requests or from `script.py`.
"""

from tests.contract.recordings import Recording
from tests.pvesim.access import Token, User
from tests.pvesim.world import World

TOKENS = {
    "root": "root@pam!full",
    "rootsep": "root@pam!sep",
    "csi": "csi@pve!csi",
    "csinosep": "csi@pve!nosep",
    "nobody": "nobody@pve!tok",
    "auditor": "auditor@pve!tok",
    "prov": "prov@pve!prov",
    "mx": "mx@pve!mx",
    "hp": "hp@pve!hp",
}
# The one real secret in the recorded raw headers stands for the token's own; zeros are a wrong one.
_RECORDED_SECRET = "058b8904-dc8c-46d3-ae56-3b240d817983"
_TICKET_AGE_S = 3600


def ensure_token(world: World, token_id: str, *, privsep: bool = True) -> Token:
    """The token; made with its user if the world has neither."""
    userid, _, name = token_id.partition("!")
    world.access.users.setdefault(userid, User(userid))
    if token_id not in world.access.tokens:
        world.access.tokens[token_id] = Token(userid, name, f"secret-of-{name}", privsep=privsep)
    return world.access.tokens[token_id]


class Credentials:
    """Headers for each caller of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ticket: tuple[str, str] = ("", "")
        self._ticket_until = -1

    def headers(self, recording: Recording) -> dict[str, str]:
        """Authorization or cookie, as the recorder sent them."""
        if recording.auth is None:
            if recording.path in ("/access/ticket", "/access/domains") or recording.note == "version as None":
                return {}
            headers = self.ticket()
            if "without CSRF" in recording.note:
                del headers["csrfpreventiontoken"]
            return headers
        if recording.auth.startswith("RAW:"):
            secret = ensure_token(self._world, TOKENS["csi"]).secret
            return {"authorization": recording.auth.removeprefix("RAW:").replace(_RECORDED_SECRET, secret)}
        return self.token(recording.auth)

    def token(self, auth: str) -> dict[str, str]:
        """The header of a token by its name in the recordings."""
        token = ensure_token(self._world, TOKENS[auth], privsep=auth not in ("root", "csinosep"))
        return {"authorization": f"PVEAPIToken={token.full_id}={token.secret}"}

    def ticket(self) -> dict[str, str]:
        """root@pam's own ticket and CSRF prevention token."""
        now = self._world.clock.time()
        if now >= self._ticket_until:
            self._ticket = self._world.authenticator.issue_ticket("root@pam", now, f"{now:032x}")
            self._ticket_until = now + _TICKET_AGE_S
        ticket, csrf = self._ticket
        return {"cookie": f"PVEAuthCookie={ticket}", "csrfpreventiontoken": csrf}
