"""Which family a recording belongs to: method and path template, as the API's own index names it.

Must not look at the answer.
"""

from functools import lru_cache
from urllib.parse import unquote

from tests.contract.recordings import Recording
from tests.pvesim.router import Router
from tests.pvesim.schema import ApiSchema, load

UNKNOWN = "no such call"


@lru_cache(maxsize=1)
def _router() -> Router:
    return Router(ApiSchema(load()), {})


def family_of(recording: Recording) -> str:
    """`METHOD template`, or "no such call" for what the API does not have."""
    segments = [unquote(part) for part in recording.path.partition("?")[0].split("/") if part]
    match = _router().match(recording.method, segments)
    return f"{match.endpoint.method} {match.endpoint.template}" if match else UNKNOWN
