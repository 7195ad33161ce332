"""The fake Kubernetes API as kubelets use it. Must not interpret Nodes."""

from typing import Any

import httpx

from tests.demo.setting import Worker, node_object


class KubeDoor:
    """Client of the API server at `url`."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, trust_env=False)

    async def create_node(self, worker: Worker) -> None:
        """Registers a Node, as its kubelet does."""
        answer = await self._http.post("/api/v1/nodes", json=node_object(worker))
        answer.raise_for_status()

    async def node(self, name: str) -> dict[str, Any]:
        """The Node as it is now."""
        answer = await self._http.get(f"/api/v1/nodes/{name}")
        answer.raise_for_status()
        node: dict[str, Any] = answer.json()
        return node

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()
