"""The one door to a Proxmox VE cluster's API.

Every request passes here: authenticated, capped, timed, counted, sent to the next address when a host does not answer,
and every refusal made an error of `pvekit.errors`. It must not decide whether a write is repeated: a write whose
bytes may have been sent is never sent again, and its outcome is reported as unknown.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from appkit.clock import Clock
from appkit.errors import Unavailable
from appkit.logs import get_logger
from pvekit.api_path import check_path, route_of
from pvekit.auth import ApiToken
from pvekit.errors import Call, NoQuorum, PveDenied, PveError, PveUnknownOutcome, PveUnreachable, ServerFailure
from pvekit.metrics import PveMetrics
from pvekit.purpose import current_purpose
from pvekit.refusals import of_answer
from pvekit.scalars import Scalar, parameter
from pvekit.settings import ClusterSettings
from pvekit.tls import ssl_context

_log = get_logger(__name__)

_CONNECT_TIMEOUT_S = 5.0
# Proxmox VE closes an idle connection after a few seconds; one that is reused just then would cut a write.
_KEEPALIVE_S = 3.0
_TARGET_UNREACHABLE = 595
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class PveClient:
    """One region's API. Objects are cheap: connections and the CA file are opened by the first request.

    `transport` replaces the network (tests). Time-outs: 5 s to connect, `settings.timeout_s` for the whole request;
    at most `settings.max_requests` are in flight, further ones wait without a time-out of their own.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock,
        metrics: PveMetrics,
        user_agent: str = "pvecloud",
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._metrics = metrics
        self._user_agent = user_agent
        self._token = ApiToken(settings)
        self._urls = list(settings.urls)
        self._slots = asyncio.Semaphore(settings.max_requests)
        self._http: httpx.AsyncClient | None = None

    @property
    def region(self) -> str:
        """The region this client belongs to."""
        return self._settings.region

    async def request(
        self, method: str, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """The answer's `data`; `path` is made by `api_path`. Raises `pvekit.errors`, ValueError for a malformed path.

        Parameters go into the query for GET and DELETE and into a form for POST and PUT. With a token from files, a 401
        reads them again and repeats the request once, since a refused request was not carried out.
        """
        check_path(path)
        call = Call(self.region, method, path)
        sent = {name: parameter(value) for name, value in (params or {}).items()}
        limit_s = self._settings.timeout_s if timeout_s is None else timeout_s
        async with self._slots:
            try:
                return await self._counted(call, sent, limit_s)
            except PveDenied as error:
                if error.status != 401 or not self._token.reread():
                    raise
            _log.info("API token was refused; its file has another one", extra={"region": self.region})
            return await self._counted(call, sent, limit_s)

    async def get(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """See `request`."""
        return await self.request("GET", path, params, timeout_s=timeout_s)

    async def get_list(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> list[dict[str, Any]]:
        """An answer that must be a list of objects; ServerFailure for any other: null is not "there are none"."""
        found = await self.request("GET", path, params, timeout_s=timeout_s)
        if isinstance(found, list) and all(isinstance(entry, dict) for entry in found):
            return found
        raise self._misshapen(path, "a list of objects", found)

    async def get_object(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """An answer that must be an object; ServerFailure for any other."""
        found = await self.request("GET", path, params, timeout_s=timeout_s)
        if isinstance(found, dict):
            return found
        raise self._misshapen(path, "an object", found)

    async def post(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """See `request`."""
        return await self.request("POST", path, params, timeout_s=timeout_s)

    async def put(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """See `request`."""
        return await self.request("PUT", path, params, timeout_s=timeout_s)

    async def delete(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """See `request`."""
        return await self.request("DELETE", path, params, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close the connections; a later request opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    def _misshapen(self, path: str, wanted: str, found: Any) -> ServerFailure:
        kind = "null" if found is None else f"of type {type(found).__name__}"
        text = f"the answer's data is {kind}, where {wanted} belongs"
        return ServerFailure(text, call=Call(self.region, "GET", path), status=200)

    async def _counted(self, call: Call, params: dict[str, str], limit_s: float) -> Any:
        started = self._clock.monotonic()
        status = 0
        try:
            response = await self._sent(call, params, limit_s)
            status = response.status_code
            return _data(response, call)
        except PveError as error:
            status = error.status
            if isinstance(error, NoQuorum):
                self.turn()
            raise
        finally:
            took_s = self._clock.monotonic() - started
            kind = current_purpose()
            self._metrics.request_done(self.region, call.method, route_of(call.path), kind, status, took_s)
            _log.debug(
                "proxmox request",
                extra={
                    "region": self.region,
                    "method": call.method,
                    "path": call.path,
                    "status": status,
                    "purpose": kind,
                    "took_s": round(took_s, 3),
                },
            )

    async def _sent(self, call: Call, params: dict[str, str], limit_s: float) -> httpx.Response:
        """Try each address once, beginning with the one that answered last; a cut read may be repeated, a write not.

        A host that lets us wait, or cannot reach its peers, may be the one that is ill: the next request begins with
        another.
        """
        failures: list[str] = []
        cut: httpx.RequestError | None = None
        for url in tuple(self._urls):
            try:
                response = await self._attempt(url, call, params, limit_s)
            except _NEVER_SENT as error:
                failures.append(f"{url}: {_why(error)}")
            except httpx.TimeoutException as error:
                self._turn_from(url)
                raise PveUnknownOutcome(f"{url} did not answer within {limit_s:g} s", call=call) from error
            except httpx.RequestError as error:
                failures.append(f"{url}: {_why(error)}")
                cut = error
                if call.method != "GET":
                    break
            else:
                self._prefer(url)
                if response.status_code == _TARGET_UNREACHABLE:
                    self._turn_from(url)
                return response
        text = "; ".join(failures)
        if cut is not None:
            raise PveUnknownOutcome(f"the connection broke before the answer: {text}", call=call) from cut
        raise PveUnreachable(f"no address answers: {text}", call=call)

    async def _attempt(self, url: str, call: Call, params: dict[str, str], limit_s: float) -> httpx.Response:
        kind = current_purpose()
        in_query = call.method in {"GET", "DELETE"}
        try:
            http, authorization = self._client(), self._token.header()
        except Unavailable as error:
            raise PveUnreachable(str(error), call=call) from error
        try:
            async with asyncio.timeout(limit_s):
                return await http.request(
                    call.method,
                    f"{url}{call.path}",
                    params=params if in_query and params else None,
                    data=params if not in_query and params else None,
                    headers={
                        "Authorization": authorization,
                        "User-Agent": self._user_agent if kind == "foreground" else f"{self._user_agent} ({kind})",
                    },
                    timeout=httpx.Timeout(limit_s, connect=min(_CONNECT_TIMEOUT_S, limit_s), pool=None),
                )
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {limit_s:g} s") from error

    def turn(self) -> None:
        """Begin with another address next time: the host that answered is cut off from the rest of its cluster."""
        self._turn_from(self._urls[0])

    def _turn_from(self, url: str) -> None:
        self._urls.remove(url)
        self._urls.append(url)

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            _log.info("proxmox address changed", extra={"region": self.region, "url": url})
            self._urls.remove(url)
            self._urls.insert(0, url)

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            limit = self._settings.max_requests
            self._http = httpx.AsyncClient(
                transport=self._transport
                or httpx.AsyncHTTPTransport(
                    verify=ssl_context(self._settings),
                    limits=httpx.Limits(
                        max_connections=limit, max_keepalive_connections=limit, keepalive_expiry=_KEEPALIVE_S
                    ),
                ),
                trust_env=False,
            )
        return self._http


def _data(response: httpx.Response, call: Call) -> Any:
    try:
        body: Any = json.loads(response.content) if response.content else None
    except ValueError:
        body = response.text
    if response.status_code >= 400:
        raise of_answer(response.status_code, response.reason_phrase, body, call=call)
    if response.status_code != 200 or not isinstance(body, dict) or "data" not in body:
        raise ServerFailure(
            f"answer {response.status_code} is none of Proxmox VE's; does the address end in /api2/json?",
            call=call,
            status=response.status_code,
            reason=response.reason_phrase,
        )
    return body["data"]


def _why(error: httpx.RequestError) -> str:
    return str(error) or type(error).__name__
