"""This machine's own Node object, read from the API server: the only Kubernetes this service speaks.

The one module with httpx. The big client stays out: the node service runs everywhere and must stay small.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import httpx

from appkit.errors import Denied, DriverError, Unavailable
from csi_node.kube_access import KubeAccess

TIMEOUT_S = 10.0

Transport = httpx.AsyncBaseTransport


class OwnNode:
    """Reads the Node named `name`. `access` is asked each time; `transport` is the seam for tests."""

    def __init__(self, name: str, access: Callable[[], KubeAccess], *, transport: Transport | None = None) -> None:
        self._name = name
        self._access = access
        self._transport = transport

    async def get(self) -> dict[str, Any]:
        """The Node as it is now. Raises Unavailable (no answer, or no such Node yet) and Denied (the missing right)."""
        access = self._access()
        path = f"/api/v1/nodes/{self._name}"
        headers = {"Accept": "application/json"}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        try:
            async with httpx.AsyncClient(
                base_url=access.url, verify=access.tls, headers=headers, timeout=TIMEOUT_S, transport=self._transport
            ) as client:
                answer = await client.get(path)
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the API server at {access.url} does not answer: {error or type(error).__name__}"
            ) from error
        if answer.status_code == httpx.codes.OK:
            with contextlib.suppress(ValueError):
                node = answer.json()
                if isinstance(node, dict):
                    return node
            raise Unavailable(f"GET {path} answered something that is no Node")
        raise self._error(path, answer)

    def _error(self, path: str, answer: httpx.Response) -> DriverError:
        if answer.status_code == httpx.codes.NOT_FOUND:
            return Unavailable(f"Node {self._name} does not exist yet; is --node-id (NODE_NAME) the name of this node?")
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return Denied(
                f"the API server refuses to show Node {self._name} ({answer.status_code}): "
                "the service account needs `get` on `nodes`",
                privilege="get nodes",
                path=path,
            )
        return Unavailable(f"GET {path} answered {answer.status_code}: {answer.text[:300]}")
