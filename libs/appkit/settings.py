"""Settings: a YAML file, environment variables and command-line values become one frozen, validated object.

Read once, in a service's `__main__`. Must not know any service's keys, and must never repeat a value in an error text:
a misplaced secret is as likely as any other mistake.

Later sources win: file, environment, overrides. Mappings are merged key by key, lists are replaced whole. For every
secret (`pydantic.SecretStr`) key `x` each source may give `x_file` instead, the path of a file whose content, without
white space around it, becomes the value. Environment: `<env_prefix>LOG_LEVEL`, one level deeper with two underscores
(`<env_prefix>NETWORK__MODE`); a list or mapping is given as YAML or JSON text.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from appkit import settings_schema as schema
from appkit.errors import DriverError
from appkit.logs import register_secret

M = TypeVar("M", bound="Settings")
Path_ = tuple[str | int, ...]

# Kubernetes puts `<SERVICE>_PORT_443_TCP_ADDR` and the like into every Pod; a Service that is named like our prefix
# must not stop the process.
_SERVICE_LINK = re.compile(r"(?:^|_)(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$")


class Settings(BaseModel):
    """Base of every settings model: frozen, unknown keys refused, readable under field name and alias."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, validate_by_name=True, validate_by_alias=True
    )


class SettingsError(DriverError):
    """What is wrong with the settings: all of it. Each problem names source, key and what to do, never a value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def load(
    model: type[M],
    *,
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
    env_prefix: str = "",
    overrides: Mapping[str, Any] | None = None,
) -> M:
    """Merge the sources and validate them as `model`; raises SettingsError with every problem found.

    `env` is read only when `env_prefix` is not empty. `overrides` has dotted keys (`network.mode`); those whose value
    is None are left out, as a flag that was not given. The value of every secret loaded is masked in logs from then on.
    """
    reading = _Reading(model)
    if file is not None:
        reading.add_file(file)
    if env is not None and env_prefix:
        reading.add_environment(env, env_prefix)
    reading.add_overrides(overrides or {})
    return reading.result(model)


_NO_FILE = "settings"
_WORDS = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} entry",
}
"""The library's words that speak of Python, in a user's."""


def _telling(errors: list[ErrorDetails], *, unread: bool) -> list[ErrorDetails]:
    """Without those that only follow from another: a list is "too short" when its entries are wrong, and everything is
    "missing" from a file that could not be read.
    """
    return [
        error
        for error in errors
        if not (unread and error["type"] == "missing" and len(error["loc"]) == 1)
        and not (error["type"] == "too_short" and any(_is_within(other["loc"], error["loc"]) for other in errors))
    ]


def _is_within(loc: Path_, outer: Path_) -> bool:
    return len(loc) > len(outer) and loc[: len(outer)] == outer


class _Reading:
    """The merged values so far, where each came from, and the problems found on the way."""

    def __init__(self, model: type[Settings]) -> None:
        self._model = model
        self._merged: dict[str, Any] = {}
        self._sources: dict[Path_, str] = {}
        self._problems: list[str] = []
        self._default_source = _NO_FILE

    def add_file(self, file: Path) -> None:
        self._default_source = str(file)
        try:
            document = parse_yaml(file.read_text(encoding="utf-8"))
        except OSError as error:
            self._problems.append(f"{file}: cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            self._problems.append(f"{file}: is not UTF-8 text")
        except ValueError as error:
            self._problems.append(f"{file}: {error}")
        else:
            if document is None:
                return
            if not isinstance(document, dict):
                self._problems.append(f"{file}: must be a mapping of keys, not a {_kind(document)}")
                return
            self._add(document, str(file))

    def add_environment(self, env: Mapping[str, str], prefix: str) -> None:
        for name, text in sorted(env.items()):
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix) or not rest or _SERVICE_LINK.search(rest):
                continue
            keys = schema.keys_of_environment(self._model, rest.split("__"))
            value: Any = text
            if schema.is_container(self._model, keys):
                try:
                    value = parse_yaml(text)
                except ValueError as error:
                    self._problems.append(f"environment variable {name}: {error}")
                    continue
            self._add(_nested(keys, value), f"environment variable {name}")

    def add_overrides(self, overrides: Mapping[str, Any]) -> None:
        for dotted, value in overrides.items():
            if value is not None:
                self._add(_nested(dotted.split("."), value), "command line")

    def result(self, model: type[M]) -> M:
        try:
            settings = model.model_validate(self._merged)
        except ValidationError as invalid:
            self._problems += [self._problem(each) for each in _telling(invalid.errors(), unread=bool(self._problems))]
        if self._problems:
            raise SettingsError(list(dict.fromkeys(self._problems)))
        for secret in _secrets(settings):
            register_secret(secret)
        return settings

    def _add(self, layer: dict[str, Any], source: str) -> None:
        self._read_secret_files(layer, (), source)
        self._merge(self._merged, layer, (), source)

    def _read_secret_files(self, node: Any, at: Path_, source: str) -> None:
        if isinstance(node, list):
            for index, item in enumerate(node):
                self._read_secret_files(item, (*at, index), source)
        if not isinstance(node, dict):
            return
        for key, secret in schema.secret_file_keys(self._model, at, node).items():
            path = node.pop(key)
            where = f"{source}: {_dotted((*at, key))}"
            if node.get(secret) is not None:
                self._problems.append(f"{where}: give either this or {secret}, not both")
            elif not isinstance(path, str) or not path:
                self._problems.append(f"{where}: must be the path of a file")
            else:
                try:
                    node[secret] = Path(path).read_text(encoding="utf-8").strip()
                except (OSError, UnicodeDecodeError) as error:
                    # Kept out of "field required": the key was given, its file is what is wrong.
                    node[secret] = "unreadable"
                    self._problems.append(f"{where}: {path} cannot be read: {_why(error)}")
        for key, value in node.items():
            self._read_secret_files(value, (*at, key), source)

    def _merge(self, into: dict[str, Any], layer: dict[str, Any], at: Path_, source: str) -> None:
        for key, value in layer.items():
            path = (*at, key)
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                self._merge(into[key], value, path, source)
            else:
                self._sources = {known: name for known, name in self._sources.items() if known[: len(path)] != path}
                self._sources[path] = source
                # An earlier source may have used the key's other spelling (field name, alias); the later one wins.
                for other in schema.spellings(self._model, at, key) - {key}:
                    into.pop(other, None)
                into[key] = value

    def _problem(self, error: ErrorDetails) -> str:
        kind, loc, message = error["type"], error["loc"], error["msg"]
        source = next(
            (self._sources[loc[:length]] for length in range(len(loc), 0, -1) if loc[:length] in self._sources),
            self._default_source,
        )
        if kind == "extra_forbidden":
            near = schema.similar_key(self._model, loc)
            message = "unknown key" + (f', did you mean "{near}"?' if near else "")
        elif kind == "missing":
            # Services name their flags after their settings.
            flag = f": give --{loc[0]}".replace("_", "-") if len(loc) == 1 and source == _NO_FILE else ""
            message = f"is required{flag}"
        elif kind in _WORDS:
            message = _WORDS[kind].format(**error.get("ctx", {}))
        message = message.removeprefix("Value error, ")  # pydantic's word for a check of ours; it tells a user nothing
        return f"{source}: {_dotted(loc)}: {message}" if loc else f"{source}: {message}"


class _StrictLoader(yaml.SafeLoader):
    """A key that stands twice is an error; the plain loader silently takes the last."""


def _mapping_without_duplicates(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise yaml.MarkedYAMLError(problem=f'key "{key_node.value}" stands twice', problem_mark=key_node.start_mark)
        if isinstance(key_node.value, str):
            seen.add(key_node.value)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


def parse_yaml(text: str) -> Any:
    """One YAML document; raises ValueError with line and column, and without the text of the document."""
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError:
        raise ValueError("not valid YAML") from None


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    nested: dict[str, Any] = value
    return nested


def _dotted(loc: Path_) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "single value"


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unknown error") if isinstance(error, OSError) else "not UTF-8 text"


def _secrets(value: Any) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for name in type(value).model_fields:
                yield from _secrets(getattr(value, name))
        case dict():
            for item in value.values():
                yield from _secrets(item)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _secrets(item)
        case _:
            return
