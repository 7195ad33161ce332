"""How a request reaches the API server: through the official client, with faults below HTTP told apart.

The protocol is the seam for tests and simulations; above it are counting, status mapping and watches. Must not look
into answers or repeat requests, with one exception: a 401 makes the credentials be read again, once, since nothing was
done.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient

from appkit.version import __version__
from kubekit.errors import KubeError, KubeUnknownOutcome, KubeUnreachable

Params = Mapping[str, str | int | bool]

_CONNECT_S = 5.0


@dataclass(frozen=True)
class Call:
    """One request. `total_s` bounds the whole exchange, `silence_s` the wait for the next piece of the answer."""

    method: str
    path: str
    params: Params
    body: Any
    content_type: str
    total_s: float | None = None
    silence_s: float | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters as the API reads them."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.params.items()
        }


class Answer(Protocol):
    """An answer whose body has not been read yet."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    async def read(self) -> bytes:
        """The whole body."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces, as they come."""
        ...


class Transport(Protocol):
    """Sends calls. Raises KubeUnreachable (never sent) or KubeUnknownOutcome, also while the body is read."""

    def open(self, call: Call) -> AbstractAsyncContextManager[Answer]:
        """Send `call`; the answer is open for the length of the context."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class OfficialTransport:
    """The official client's authentication, TLS and connection pool. `reload` reads the credentials again."""

    def __init__(self, api: ApiClient, *, reload: Callable[[], Awaitable[None]] | None) -> None:
        self._api = api
        self._reload = reload

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        try:
            response = await self._send(call)
            if response.status == 401 and self._reload is not None:
                response.release()
                await self._reload()
                response = await self._send(call)
            async with response:
                yield _Received(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _fault(error, call) from error

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def _send(self, call: Call) -> aiohttp.ClientResponse:
        headers = {"User-Agent": f"pvecloud/{__version__}", "Accept": "application/json"}
        if call.content_type:
            headers["Content-Type"] = call.content_type
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], call.path, call.method, call.body)
        url = self._api.configuration.host.rstrip("/") + call.path
        if call.params:
            url += "?" + urlencode(call.query)
        timeout = aiohttp.ClientTimeout(total=call.total_s, sock_connect=_CONNECT_S, sock_read=call.silence_s)
        answer = await self._api.call_api(call.method, url, headers, call.body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


class _Received:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    async def read(self) -> bytes:
        return await self._response.read()

    def chunks(self) -> AsyncIterator[bytes]:
        return aiter(self._response.content.iter_any())


def _fault(error: aiohttp.ClientError | TimeoutError, call: Call) -> KubeError:
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return KubeUnreachable(f"no connection: {text}", method=call.method, path=call.path)
    if isinstance(error, TimeoutError):
        return KubeUnknownOutcome("no answer within the time-out", method=call.method, path=call.path)
    text = f"the connection broke before the whole answer came: {text}"
    return KubeUnknownOutcome(text, method=call.method, path=call.path)
