"""Who sends this request: API tokens and tickets, with Proxmox VE's refusals (9.2, recorded).

Must not decide what the caller may do; `permissions.py` does.
"""

import hmac
import re
from http.cookies import CookieError, SimpleCookie

from tests.pvesim.access import Access, Identity
from tests.pvesim.errors import ApiError
from tests.pvesim.requests import SimRequest

_TOKEN_HEADER = re.compile(r"PVEAPIToken[= ](.*)", re.DOTALL)
_TOKEN = re.compile(r"([^\s!=]+@[^\s!=]+)!([^\s!=]+)=(\S+)")
TICKET_LIFETIME_S = 7200
CHALLENGE_LIFETIME_S = 300


def refuse(reason: str) -> ApiError:
    """401 without a body; the caller adds the delay."""
    return ApiError(401, reason, bare=True)


class Authenticator:
    """Checks credentials against user.cfg and the tickets given out."""

    def __init__(self, access: Access) -> None:
        self._access = access
        # ticket -> (user, issued at, CSRF prevention token)
        self._tickets: dict[str, tuple[str, int, str]] = {}
        # Ticket that only says that the password was right -> (user, issued at).
        self._challenges: dict[str, tuple[str, int]] = {}

    def issue_ticket(self, userid: str, now: int, nonce: str) -> tuple[str, str]:
        """(ticket, CSRF prevention token) for a user whose password was right."""
        ticket = f"PVE:{userid}:{now:08X}::{nonce}"
        csrf = f"{now:08X}:{nonce[::-1]}"
        self._tickets[ticket] = (userid, now, csrf)
        return ticket, csrf

    def issue_challenge(self, userid: str, now: int, nonce: str) -> str:
        """A ticket good for nothing but for answering with the second factor."""
        ticket = f"PVE:!tfa!%7B%22totp%22%3Atrue%7D:{now:08X}::{nonce}"
        self._challenges[ticket] = (userid, now)
        return ticket

    def challenged_user(self, ticket: str, now: int) -> str | None:
        """The user whose second factor that ticket waits for."""
        found = self._challenges.get(ticket)
        if found is None or now - found[1] > CHALLENGE_LIFETIME_S:
            return None
        return found[0]

    def ticket_user(self, ticket: str, now: int) -> str | None:
        """The user of a valid ticket."""
        found = self._tickets.get(ticket)
        if found is None or now - found[1] > TICKET_LIFETIME_S:
            return None
        return found[0]

    def identify(self, request: SimRequest, now: int) -> Identity:
        """The caller; 401 with the recorded reasons otherwise."""
        header = _TOKEN_HEADER.match(request.header("authorization"))
        if header:
            return self._by_token(header[1], now)
        ticket = _cookie(request)
        if not ticket or ticket in self._challenges:
            # A password alone, where a second factor is due, is no ticket for anything.
            raise refuse("No ticket")
        found = self._tickets.get(ticket)
        user = self.ticket_user(ticket, now)
        if found is None or user is None or self._access.find_user(user, now) is None:
            raise refuse("Authentication failed!")
        if request.method != "GET" and request.header("csrfpreventiontoken") != found[2]:
            raise refuse("Permission denied - invalid csrf token")
        return Identity(user)

    def _by_token(self, text: str, now: int) -> Identity:
        match = _TOKEN.fullmatch(text)
        token = self._access.tokens.get(f"{match[1]}!{match[2]}") if match else None
        if match is None or token is None or not hmac.compare_digest(token.secret.encode(), match[3].encode()):
            raise refuse("Authentication failed!")
        if (token.expire and token.expire < now) or self._access.find_user(token.userid, now) is None:
            raise refuse("Authentication failed!")
        return Identity(token.userid, token.name)


def _cookie(request: SimRequest) -> str:
    try:
        cookies = SimpleCookie(request.header("cookie"))
    except CookieError:
        return ""
    morsel = cookies.get("PVEAuthCookie")
    return morsel.value if morsel else ""
