"""skeleton"""

from collections.abc import Mapping
from typing import Any

import httpx

from appkit.clock import Clock
from pvekit.metrics import PveMetrics
from pvekit.scalars import Scalar
from pvekit.settings import ClusterSettings


class PveClient:
    """One cluster's API: the only door. Counted, capped, timed; every refusal is an error of `pvekit.errors`."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock,
        metrics: PveMetrics,
        user_agent: str = "pvecloud",
    ) -> None:
        raise NotImplementedError

    @property
    def region(self) -> str:
        """The region this client belongs to."""
        raise NotImplementedError

    async def request(
        self, method: str, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """The answer's `data`. `path` starts with "/" and its parts are already encoded by `api_path`."""
        raise NotImplementedError

    async def get(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """GET."""
        raise NotImplementedError

    async def post(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """POST."""
        raise NotImplementedError

    async def put(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """PUT."""
        raise NotImplementedError

    async def delete(
        self, path: str, params: Mapping[str, Scalar] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """DELETE; parameters go into the query."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections."""
        raise NotImplementedError


def api_path(*parts: str | int) -> str:
    """ "/nodes/pve1/…" of its parts, each percent-encoded; ValueError for an empty one."""
    raise NotImplementedError
