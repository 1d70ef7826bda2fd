"""Errors in settings: their class, and a message for each value that the models refuse."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoscaling.settings.wording import Place, date_of, near_one, nearest, reason, shortened, written

MAY_BE_ENCRYPTED = ("prometheus.auth", "metricsAdapter.values")
"""Settings whose values may be secrets: messages never show these values."""

_MAP_KEY = "[key]"
"""Pydantic's mark for an error in a key of a map, not in its value."""

Location = tuple[int | str, ...]
"""Keys of maps and positions in lists, as in the settings file."""


@dataclass(frozen=True)
class Finding:
    """An error in the settings, or a warning about them."""

    sentence: str
    depends_on: tuple[str, ...]
    """The top-level settings whose values the finding depends on."""
    severity: Literal["error", "warning"] = "error"


def key_of(location: Location) -> str:
    """Return the key as users write it, such as `services[0].autoscaler.target`."""
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def within(key: str, outer: str) -> bool:
    """Return whether a key is the outer key or inside it."""
    return key.startswith(outer) and key[len(outer) : len(outer) + 1] in ("", ".", "[")


def encryption_errors(encrypted: Collection[str], model: type[BaseModel]) -> Iterator[str]:
    """Refuse encrypted values that are not secrets, one sentence each.

    Args:
        encrypted: encrypted settings, or top-level settings that contain encrypted values.
        model: the settings model.
    """
    for key in sorted(encrypted):
        top, *inner = re.split(r"[.\[]", key)
        field = field_of(model, top)
        if field is None or any(_overlap(key, allowed) for allowed in MAY_BE_ENCRYPTED):
            continue
        if environment := re.match(r"(services\[\d+\])\.(env|args)\b", key):
            service, where = environment.groups()
            yield (
                f"{key} is encrypted, but the cluster stores {where} as plain text: put the value into a Kubernetes "
                f"Secret and name that Secret in {service}.envFrom."
            )
        elif inner or not next(models(field.annotation), None):
            path = f"'{key}'" if "[" in key else key
            yield (
                f"{key} is encrypted, but this setting is not a secret: set it in plain text with `pulumi config set "
                f"--path {path} VALUE`."
            )
        else:
            secrets = " Put secrets into a Kubernetes Secret that services[].envFrom names." * (key == "services")
            yield f"{key} has encrypted values, but no secret settings: write the values in plain text.{secrets}"


def model_errors(
    error: ValidationError, model: type[BaseModel], removed: Mapping[str, str], encrypted: Collection[str] = ()
) -> list[str]:
    """Return a sentence for each key that the models refuse, in the models' order.

    Args:
        error: the models' validation error.
        model: the settings model.
        removed: settings that no longer exist, each with the reason.
        encrypted: settings with encrypted values, which are never shown.
    """
    hidden = (*MAY_BE_ENCRYPTED, *encrypted)
    refused = [_refused(details, model, hidden) for details in error.errors()]
    # A misspelt key is one error: the key that it should be is not missing.
    meant = {each.meant for each in refused}
    return [
        f"{each.key} is no longer a setting, because {removed[each.key]}: remove it."
        if each.key in removed
        else each.sentence
        for each in refused
        if not (each.kind == "missing" and each.key in meant)
    ]


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation, such as `Service` in `list[Service]`."""
    if _is_model(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


def aliases(model: type[BaseModel]) -> list[str]:
    """Return the model's keys as users write them."""
    return [str(info.alias) for info in model.model_fields.values()]


def field_of(model: type[BaseModel], alias: int | str) -> FieldInfo | None:
    """Return the model's field with that key."""
    return next((info for info in model.model_fields.values() if info.alias == alias), None)


def place(annotation: Any, metadata: Collection[Any] = ()) -> Place:
    """Return the type and the constraints of a value that may also be null."""
    if get_origin(annotation) is Annotated:
        inner, *constraints = get_args(annotation)
        flat = [each for item in constraints for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
        return place(inner, [*metadata, *flat])
    if get_origin(annotation) in (Union, UnionType):
        [inner] = [each for each in get_args(annotation) if each is not NoneType]
        return place(inner, metadata)
    items = get_args(annotation)[:1] if get_origin(annotation) is list else ()
    keys = aliases(annotation) if _is_model(annotation) else []
    return Place(annotation, tuple(metadata), keys, place(items[0]).annotation if items else None)


@dataclass(frozen=True)
class _Refused:
    """A value that the models refuse."""

    details: ErrorDetails
    location: Location
    place: Place
    """The constraints on the value; for a key that is not a setting, those of the map around it."""
    is_key: bool
    """Whether the error is in the last key, not in the value of that key."""
    hidden: tuple[str, ...]
    """Settings whose values are not shown."""

    @property
    def kind(self) -> str:
        return self.details["type"]

    @property
    def key(self) -> str:
        return key_of(self.location)

    @property
    def meant(self) -> str | None:
        """The key that the user probably meant by a key that is not a setting."""
        if self.kind != "extra_forbidden":
            return None
        *parents, name = self.location
        outer, *inner = self._path
        if inner and outer in self.place.keys:
            return key_of((*parents, outer, *(int(part) if part.isdigit() else part for part in inner)))
        near = near_one(str(name), self.place.keys)
        return key_of((*parents, near)) if near else None

    @property
    def sentence(self) -> str:
        """The message: the key, its value, the allowed values, and the most similar valid value."""
        key, value = self.key, self.details["input"]
        if self.kind == "missing":
            return f"{key} is missing: set it."
        if self.kind == "extra_forbidden":
            return f"{shortened(key)} is not a setting: {self._instead}"
        secret = any(_overlap(key, setting) for setting in self.hidden)
        why = reason(self.details, self.place, secret=secret).rstrip(".")
        why = why if why.endswith("?") else f"{why}."
        if self.is_key:
            *outer, name = self.location
            return f"{key_of(tuple(outer))} has the key {written(name)}: the key {why}"
        if secret and value != "":
            return f"{key} can't be used: {why}"
        if isinstance(value, str) and value.startswith("<"):
            return f"{key} is {written(value)}: fill it in."
        if date_of(value):
            return f"{key} is {written(value)}, which YAML reads as a date: write it in quotes."
        return f"{key} is {'empty' if value == '' else written(value)}: {why}"

    @cached_property
    def _path(self) -> list[str]:
        """The parts of a key that is written as a path, such as `services[0].image`."""
        name = str(self.location[-1])
        return [part for part in re.split(r"[.\[\]]+", name) if part] or [name]

    @property
    def _instead(self) -> str:
        outer, *inner = self._path
        if inner and outer in self.place.keys:
            return f"write it inside {key_of((*self.location[:-1], outer))}, as `pulumi config set --path` does."
        return nearest(str(self.location[-1]), self.place.keys)


def _refused(details: ErrorDetails, model: type[BaseModel], hidden: tuple[str, ...]) -> _Refused:
    location, is_key = details["loc"], details["loc"][-1] == _MAP_KEY
    around = spot = place(model)
    for part in location:
        if part == _MAP_KEY:
            spot = place(get_args(around.annotation)[0])
        elif (inner := _inside(spot, part)) is not None:
            around, spot = spot, inner
    return _Refused(details, location[:-1] if is_key else location, spot, is_key, hidden)


def _inside(spot: Place, part: int | str) -> Place | None:
    """Return the constraints on the value at a key or position, or None for an unknown key."""
    if _is_model(spot.annotation):
        info = field_of(spot.annotation, part)
        return place(info.annotation, info.metadata) if info else None
    return place(get_args(spot.annotation)[-1])


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _overlap(key: str, other: str) -> bool:
    return within(key, other) or within(other, key)
