"""Questions to a settings model about its keys: spellings, secrets, nesting, what a misspelt key may have meant.

Pure: reads pydantic's field table, no values and no sources (those are appkit.settings').
"""

import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.fields import FieldInfo

FILE_SUFFIX = "_file"


def keys_of_environment(model: type[BaseModel], parts: list[str]) -> list[str]:
    """The keys that upper-case environment name parts stand for; a part that fits nothing is lowered and kept."""
    keys: list[str] = []
    for part in parts:
        known = _known_keys(model_at(model, tuple(keys)))
        keys.append(next((key for key in known if key.lower() == part.lower()), part.lower()))
    return keys


def is_container(model: type[BaseModel], keys: list[str]) -> bool:
    """Whether the value under `keys` is a list, mapping or model rather than one text or number."""
    owner = model_at(model, tuple(keys[:-1]))
    field = _field(owner, keys[-1]) if owner else None
    return field is not None and any(
        (isinstance(part, type) and issubclass(part, BaseModel | dict | list | tuple | set | frozenset))
        or get_origin(part) in (dict, list, tuple, set, frozenset, Mapping)
        for part in _alternatives(field.annotation)
    )


def secret_file_keys(model: type[BaseModel], at: tuple[str | int, ...], node: Mapping[Any, Any]) -> dict[str, str]:
    """Keys of `node` (the mapping at `at`) that name the file of a secret → the secret's own key.

    A model that declares `x_file` itself keeps it: it wants to read the file again later.
    """
    owner = model_at(model, at)
    if owner is None:
        return {}
    found = {}
    for key in node:
        if isinstance(key, str) and key.endswith(FILE_SUFFIX) and _field(owner, key) is None:
            field = _field(owner, key.removesuffix(FILE_SUFFIX))
            if field is not None and _is_secret(field):
                found[key] = key.removesuffix(FILE_SUFFIX)
    return found


def spellings(model: type[BaseModel], at: tuple[str | int, ...], key: str | int) -> set[str]:
    """Every key under which the field that `key` spells may be given in the mapping at `at`, `key` included."""
    owner = model_at(model, at)
    for name, field in owner.model_fields.items() if owner else ():
        names = set(_names(name, field))
        if key in names:
            return names
    return {str(key)}


def similar_key(model: type[BaseModel], loc: tuple[str | int, ...]) -> str | None:
    """The known key that the unknown key at the end of `loc` most likely meant."""
    owner = model_at(model, loc[:-1])
    if owner is None or not loc:
        return None
    known = {key.lower(): key for key in _known_keys(owner)}
    near = get_close_matches(str(loc[-1]).lower(), known, n=1)
    return known[near[0]] if near else None


def model_at(model: type[BaseModel], at: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model that the mapping at `at` is read as; None where that is not a model (or not exactly one)."""
    current: Any = model
    for part in at:
        models = [each for each in _alternatives(current) if isinstance(each, type) and issubclass(each, BaseModel)]
        if len(models) == 1 and isinstance(part, str):
            field = _field(models[0], part)
            # Pydantic puts the names of union members into locations; a name that is no key is such a one.
            current = current if field is None and part == models[0].__name__ else field and field.annotation
        else:
            current = _item(current)
    models = [each for each in _alternatives(current) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if len(models) == 1 else None


def _item(annotation: Any) -> Any:
    for part in _alternatives(annotation):
        arguments = get_args(part)
        if arguments:
            return arguments[-1] if get_origin(part) is not tuple else arguments[0]
    return None


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for member in get_args(annotation) for each in _alternatives(member)]
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    return [annotation]


def _field(model: type[BaseModel] | None, key: str) -> FieldInfo | None:
    for name, field in model.model_fields.items() if model else ():
        if key in _names(name, field):
            return field
    return None


def _is_secret(field: FieldInfo) -> bool:
    return any(isinstance(each, type) and issubclass(each, SecretStr) for each in _alternatives(field.annotation))


def _known_keys(model: type[BaseModel] | None) -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items() if model else ():
        keys += _names(name, field)
        if _is_secret(field):
            keys += [f"{each}{FILE_SUFFIX}" for each in _names(name, field)]
    return keys


def _names(name: str, field: FieldInfo) -> list[str]:
    return list(dict.fromkeys([name, *_aliases(field)]))


def _aliases(field: FieldInfo) -> Iterator[str]:
    for alias in (field.alias, field.validation_alias):
        if isinstance(alias, str):
            yield alias
        elif isinstance(alias, AliasChoices):
            yield from (choice for choice in alias.choices if isinstance(choice, str))
