"""The one door to the Kubernetes API: authenticated, timed, counted, with errors mapped.

Built on the official client for what it is good at (kubeconfig, exec plugins, service account tokens, TLS); its typed
models and its generated calls are not used. Must not retry (the informer, the work queue and the Lease holder know
when a repeat is right), with one exception: a 401 makes the credentials be read again, once, since nothing was done.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from prometheus_client import CollectorRegistry
from pydantic import Field

from appkit.clock import Clock, SystemClock
from appkit.metrics import Metrics
from appkit.settings import Settings, SettingsError
from appkit.version import __version__
from kubekit.errors import KubeUnavailable, error_of_status
from kubekit.metrics import KubeMetrics
from kubekit.objects import describe_path
from kubekit.wire import decoded, event_of, lines, query_text, transport_error

MERGE_PATCH = "application/merge-patch+json"

Params = Mapping[str, str | int | bool]

# A real API server sends a bookmark about once a minute; more than two of them missed means the connection is dead.
WATCH_SILENCE_S = 130.0
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class KubeSettings(Settings):
    """Where the API server is. Nothing set: the Pod's own service account."""

    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    """URL of the API server: alone, for one without authentication; with `kubeconfig`, instead of the URL there."""
    timeout_s: float = Field(default=10.0, gt=0)
    """For each request, watches excepted."""


class KubeSession:
    """An open client. Made by `connect`; closed by `aclose`."""

    def __init__(
        self,
        api: ApiClient,
        settings: KubeSettings,
        *,
        reload: Callable[[], Awaitable[None]] | None,
        metrics: KubeMetrics,
        clock: Clock,
    ) -> None:
        self._api = api
        self._settings = settings
        self._reload = reload
        self.metrics = metrics
        self.clock = clock

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Send one request and return the decoded answer; raises the classes of kubekit.errors.

        `timeout_s` bounds the whole exchange; None takes the settings' own.
        """
        total_s = timeout_s or self._settings.timeout_s
        timeout = aiohttp.ClientTimeout(total=total_s, sock_connect=min(total_s, 5.0))
        resource, named = describe_path(path)
        verb = _VERBS.get(method) or ("get" if named else "list")
        started, code = self.clock.monotonic(), "none"
        try:
            response = await self._send(method, path, params, body, content_type, timeout)
            async with response:
                code = str(response.status)
                answer = decoded(await response.read())
            if response.status >= 400:
                raise error_of_status(method, path, response.status, answer)
            if not isinstance(answer, dict):
                raise KubeUnavailable(
                    "the answer is not a JSON object; is this an API server?", method=method, path=path
                )
            return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(error, method, path) from error
        finally:
            self.metrics.requests.labels(verb, resource, code).inc()
            self.metrics.request_seconds.labels(verb, resource).observe(self.clock.monotonic() - started)

    async def watch(self, path: str, params: Params | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """The events `{"type", "object"}` of one watch, until the server ends it.

        Raises KubeGone when the resource version is too old (as a status or as an ERROR event) and other errors as
        `request` does; KubeUnknownOutcome after `WATCH_SILENCE_S` without a single event or bookmark. Whoever leaves it
        early closes it (`contextlib.aclosing`).
        """
        resource, _ = describe_path(path)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=WATCH_SILENCE_S)
        code = "none"
        try:
            response = await self._send("GET", path, {**(params or {}), "watch": "true"}, None, "", timeout)
            async with response:
                code = str(response.status)
                if response.status >= 400:
                    raise error_of_status("GET", path, response.status, decoded(await response.read()))
                async with aclosing(lines(response.content)) as received:
                    async for line in received:
                        yield event_of(line, path)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(error, "GET", path) from error
        finally:
            self.metrics.requests.labels("watch", resource, code).inc()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Any,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        response = await self._send_once(method, path, params, body, content_type, timeout)
        if response.status == 401 and self._reload is not None:
            response.release()
            await self._reload()
            response = await self._send_once(method, path, params, body, content_type, timeout)
        return response

    async def _send_once(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Any,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"User-Agent": f"pvecloud/{__version__}", "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._api.configuration.host.rstrip("/") + path
        if params:
            url += "?" + urlencode({key: query_text(value) for key, value in params.items()})
        answer = await self._api.call_api(method, url, headers, body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


async def connect(
    settings: KubeSettings, *, metrics: KubeMetrics | None = None, clock: Clock | None = None
) -> KubeSession:
    """A session as the settings say; no request is sent yet, but an exec plugin of a kubeconfig is run.

    Raises SettingsError when the kubeconfig cannot be used, or none is given outside a Pod.
    """
    configuration = Configuration()
    reload: Callable[[], Awaitable[None]] | None = None
    try:
        if settings.kubeconfig is not None:
            loader = await load_kube_config(  # type: ignore[no-untyped-call]
                str(settings.kubeconfig),
                context=settings.context,
                client_configuration=configuration,
                persist_config=False,
            )

            async def read_again() -> None:
                await loader.load_and_set(configuration)

            reload = read_again

        elif settings.server is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        where = f"kubeconfig {settings.kubeconfig}" if settings.kubeconfig else "service account of the Pod"
        raise SettingsError([f"{where}: {error}"]) from error
    if settings.server is not None:
        configuration.host = settings.server
    return KubeSession(
        ApiClient(configuration),
        settings,
        reload=reload,
        metrics=metrics or KubeMetrics(Metrics(CollectorRegistry())),
        clock=clock or SystemClock(),
    )
