"""The one door to the Kubernetes API: authenticated, timed, counted, with errors mapped.

Built on the official client for what it is good at (kubeconfig, exec plugins, service account tokens, TLS); its typed
models and its generated calls are not used. Must not retry: the informer, the work queue and the Lease holder know when
a repeat is right.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from prometheus_client import CollectorRegistry
from pydantic import Field

from appkit.clock import Clock, SystemClock
from appkit.metrics import Metrics
from appkit.settings import Settings, SettingsError, parse_yaml
from kubekit.errors import KubeUnavailable, error_of_status
from kubekit.metrics import KubeMetrics
from kubekit.objects import describe_path
from kubekit.transport import Call, OfficialTransport, Params, Transport
from kubekit.wire import decoded, event_of, lines

MERGE_PATCH = "application/merge-patch+json"

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
    """Requests and watches over a transport. Made by `connect`; closed by `aclose`.

    `clock` and `metrics` are those of everything that works with this session.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_s: float = 10.0,
        metrics: KubeMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self.metrics = metrics or KubeMetrics(Metrics(CollectorRegistry()))
        self.clock = clock or SystemClock()

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

        `timeout_s` bounds the whole exchange; None takes the session's own.
        """
        resource, named = describe_path(path)
        verb = _VERBS.get(method) or ("get" if named else "list")
        call = Call(method, path, params or {}, body, content_type, total_s=timeout_s or self._timeout_s)
        started, code = self.clock.monotonic(), "none"
        try:
            async with self._transport.open(call) as answer:
                code = str(answer.status)
                value = decoded(await answer.read())
        finally:
            self.metrics.requests.labels(verb, resource, code).inc()
            self.metrics.request_seconds.labels(verb, resource).observe(self.clock.monotonic() - started)
        if answer.status >= 400:
            raise error_of_status(method, path, answer.status, value)
        if not isinstance(value, dict):
            raise KubeUnavailable("the answer is not a JSON object; is this an API server?", method=method, path=path)
        return value

    async def watch(self, path: str, params: Params | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """The events `{"type", "object"}` of one watch, until the server ends it.

        Raises KubeGone when the resource version is too old (as a status or as an ERROR event) and other errors as
        `request` does; KubeUnknownOutcome after `WATCH_SILENCE_S` without a single event or bookmark. Whoever leaves it
        early closes it (`contextlib.aclosing`).
        """
        resource, _ = describe_path(path)
        call = Call("GET", path, {**(params or {}), "watch": True}, None, "", silence_s=WATCH_SILENCE_S)
        code = "none"
        try:
            async with self._transport.open(call) as answer:
                code = str(answer.status)
                if answer.status >= 400:
                    raise error_of_status("GET", path, answer.status, decoded(await answer.read()))
                async with aclosing(lines(answer.chunks())) as received:
                    async for line in received:
                        yield event_of(line, path)
        finally:
            self.metrics.requests.labels("watch", resource, code).inc()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


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
            _check_kubeconfig(settings.kubeconfig)
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
    except (ConfigException, OSError, ValueError) as error:
        pod = "service account of the Pod (outside a Pod, give a kubeconfig)"
        where = f"kubeconfig {settings.kubeconfig}" if settings.kubeconfig else pod
        raise SettingsError([f"{where}: {error}"]) from error
    if settings.server is not None:
        configuration.host = settings.server
    transport = OfficialTransport(ApiClient(configuration), reload=reload)
    return KubeSession(transport, timeout_s=settings.timeout_s, metrics=metrics, clock=clock)


def _check_kubeconfig(path: Path) -> None:
    """Raise ValueError for a file that the official loader would stumble over with an error of its own."""
    document = parse_yaml(path.read_text(encoding="utf-8"))
    parts = [document.get(key) for key in ("clusters", "contexts", "users")] if isinstance(document, dict) else [None]
    if not all(isinstance(part, list) for part in parts):
        raise ValueError("is not a kubeconfig: it must have lists of clusters, contexts and users")
