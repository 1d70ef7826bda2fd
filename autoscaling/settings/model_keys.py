"""The models' keys as users write them, and what the models allow at each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

Location = tuple[int | str, ...]
"""Keys of maps, and positions in lists, as in the user's file."""

MAP_KEY = "[key]"
"""How the library says that a key of a map, and not its value, is at fault."""


def key_of(location: Location) -> str:
    """The key as the user wrote it, such as `services[0].autoscaler.target`."""
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def within(key: str, outer: str) -> bool:
    """Whether a key is the other one, or inside it."""
    return key.startswith(outer) and key[len(outer) : len(outer) + 1] in ("", ".", "[")


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation, such as that of `list[Service]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


def aliases(model: type[BaseModel]) -> Iterator[str]:
    """The model's keys, as users write them."""
    return (str(info.alias) for info in model.model_fields.values())


@dataclass(frozen=True)
class Alternative:
    """One of the types that a value may have, with the constraints on it."""

    annotation: Any
    metadata: tuple[Any, ...] = ()


def alternatives(annotation: Any, metadata: Sequence[Any] = ()) -> list[Alternative]:
    """The types of a union, or the one that there is."""
    if get_origin(annotation) is Annotated:
        inner, *constraints = get_args(annotation)
        flat = [each for one in constraints for each in (one.metadata if isinstance(one, FieldInfo) else [one])]
        return alternatives(inner, [*metadata, *flat])
    if get_origin(annotation) in (Union, UnionType):
        return [one for each in get_args(annotation) for one in alternatives(each, metadata)]
    return [Alternative(annotation, tuple(metadata))]


def inside(spot: Sequence[Alternative], part: int | str) -> list[Alternative] | None:
    """What may stand at a key or a position of a value; None where it has none such."""
    for one in spot:
        if is_model(one.annotation):
            if info := field_of(one.annotation, part):
                return alternatives(info.annotation, info.metadata)
        elif isinstance(part, int) and get_origin(one.annotation) in (list, tuple, set, frozenset):
            return alternatives(get_args(one.annotation)[0])
        elif isinstance(part, str) and part != MAP_KEY and get_origin(one.annotation) is dict:
            return alternatives(get_args(one.annotation)[1])
    return None


def field_of(model: type[BaseModel], alias: int | str) -> FieldInfo | None:
    """The model's field with that key."""
    return next((info for info in model.model_fields.values() if info.alias == alias), None)


def aliases_at(spot: Sequence[Alternative]) -> list[str]:
    """The keys of the models that may stand there."""
    return [alias for one in spot if is_model(one.annotation) for alias in aliases(one.annotation)]


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Whether a type is one of the models."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def holds_secret(annotation: Any) -> bool:
    """Whether a value of the type is one that is never shown, or has one in it."""
    if is_model(annotation):
        return any(holds_secret(info.annotation) for info in annotation.model_fields.values())
    return annotation is SecretStr or any(holds_secret(argument) for argument in get_args(annotation))
