"""From method and path to endpoint and handler. Must not know what a handler does."""

from dataclasses import dataclass, field

from tests.pvesim.call import Handler, Routes
from tests.pvesim.schema import ApiSchema, Endpoint


@dataclass
class _Branch:
    literal: dict[str, "_Branch"] = field(default_factory=dict)
    named: dict[str, "_Branch"] = field(default_factory=dict)
    template: str | None = None


@dataclass(frozen=True)
class Match:
    """`handler` None: the real API has it, the simulator does not."""

    endpoint: Endpoint
    handler: Handler | None
    path_params: dict[str, str]


class Router:
    """Finds the endpoint of a concrete path; literal segments win over parameters."""

    def __init__(self, schema: ApiSchema, routes: Routes) -> None:
        self._schema = schema
        self._routes = dict(routes)
        self._root = _Branch()
        for template in schema.templates():
            self._insert(template)
        for method, template in self._routes:
            try:
                schema.get(method, template)
            except KeyError:
                # A call the schema data lacks: any valid login, any parameter is checked by the handler.
                proxied = template.startswith("/nodes/{node}/")
                names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
                params = {name: {"type": "string"} for name in names}
                schema.add(Endpoint(method, template, params, {"user": "all"}, proxied, proxied, lenient=True))
                self._insert(template)

    def _insert(self, template: str) -> None:
        branch = self._root
        for part in [piece for piece in template.split("/") if piece]:
            if part.startswith("{"):
                branch = branch.named.setdefault(part[1:-1], _Branch())
            else:
                branch = branch.literal.setdefault(part, _Branch())
        branch.template = template

    def match(self, method: str, segments: list[str]) -> Match | None:
        """The endpoint, or None for a path or method that Proxmox VE does not have either."""
        found = self._walk(self._root, segments, {})
        if found is None:
            return None
        template, params = found
        try:
            endpoint = self._schema.get(method, template)
        except KeyError:
            return None
        return Match(endpoint, self._routes.get((method, template)), params)

    def _walk(self, branch: _Branch, segments: list[str], params: dict[str, str]) -> tuple[str, dict[str, str]] | None:
        if not segments:
            return (branch.template, params) if branch.template else None
        head, rest = segments[0], segments[1:]
        if head in branch.literal:
            found = self._walk(branch.literal[head], rest, params)
            if found is not None:
                return found
        for name, child in branch.named.items():
            if name == "volume":
                # A volume's name may hold slashes, escaped or not.
                return self._walk(child, [], params | {name: "/".join(segments)})
            found = self._walk(child, rest, params | {name: head})
            if found is not None:
                return found
        return None
