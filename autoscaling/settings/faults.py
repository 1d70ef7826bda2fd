"""What the models refuse, as sentences for the person who wrote the value."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoscaling.settings.model_keys import (
    MAP_KEY,
    Alternative,
    Location,
    aliases_at,
    alternatives,
    field_of,
    holds_secret,
    inside,
    is_model,
    key_of,
    within,
)
from autoscaling.settings.stack import REMOVED_SETTINGS, Settings
from autoscaling.settings.wording import date_of, near_one, nearest, reason, shortened, written


@dataclass(frozen=True)
class Fault:
    """A value that the models refuse."""

    location: Location
    sentence: str
    missing: bool = False
    meant: str | None = None
    """The key that the user seems to have meant by one that is none."""

    @property
    def key(self) -> str:
        """The key as the user wrote it, such as `services[0].autoscaler.target`."""
        return key_of(self.location)


def faults_of(error: ValidationError, encrypted: Collection[str] = ()) -> list[Fault]:
    """One fault a key, in the models' order.

    Args:
        error: what the models refused.
        encrypted: keys whose values, and those inside them, are not shown.
    """
    found: dict[Location, list[_Located]] = {}
    for details in error.errors():
        one = _located(details)
        found.setdefault(one.location, []).append(one)
    faults = []
    for location, several in found.items():
        # Of a union, what a value is nearest to says more than all that it is not.
        if several[0].in_union and any(other[: len(location)] == location != other for other in found):
            continue
        secret = any(within(key_of(location), outer) for outer in encrypted)
        secret = secret or any(holds_secret(one.annotation) for one in several[0].spot)
        kind = several[0].details["type"]
        meant = _meant(several[0]) if kind == "extra_forbidden" else None
        faults.append(Fault(location, _sentence(several, secret), kind == "missing", meant))
    return faults


def without_faults(values: Mapping[str, Any], faults: Sequence[Fault]) -> dict[str, Any]:
    """The values, with what is faulty left out or, where it is required, replaced by the model's example."""
    rest = copy.deepcopy(dict(values))
    # From the last on, since an item that is left out moves those behind it.
    for fault in reversed(faults):
        _mend(rest, fault.location)
    return rest


@dataclass(frozen=True)
class _Located:
    """An error where the user sees it."""

    details: ErrorDetails
    location: Location
    spot: list[Alternative]
    """What may stand there."""
    is_key: bool
    """Whether the key itself is meant, and not its value."""
    in_union: bool


def _located(details: ErrorDetails) -> _Located:
    location: list[int | str] = []
    around = spot = [Alternative(Settings)]
    is_key = in_union = False
    *_, last = parts = details["loc"]
    for part in parts:
        inner = inside(spot, part)
        if inner is not None:
            location.append(part)
            around, spot, in_union = spot, inner, False
        elif part == MAP_KEY:
            is_key = True
            maps = [get_args(one.annotation) for one in around if get_origin(one.annotation) is dict]
            spot = [one for key, _ in maps for one in alternatives(key)]
        elif part is last and details["type"] == "extra_forbidden":
            location.append(part)
        else:
            # What the library calls one of the types of a union.
            in_union = True
            spot = [one for one in spot if getattr(one.annotation, "__name__", None) == part] or spot
    return _Located(details, tuple(location), spot, is_key, in_union)


def _field_at(location: Location) -> FieldInfo | None:
    *parents, last = location
    spot = [Alternative(Settings)]
    for part in parents:
        spot = inside(spot, part) or []
    fields = (field_of(one.annotation, last) for one in spot if is_model(one.annotation))
    return next((field for field in fields if field), None)


def _mend(values: dict[str, Any], location: Location) -> None:
    """Leave out what stands there, or replace it; of a value that is not there itself, what is around it."""
    *parents, last = location
    container: Any = values
    for depth, part in enumerate(parents):
        try:
            container = container[part]
        except (KeyError, IndexError, TypeError):
            return _mend(values, location[: depth + 1])
    if isinstance(last, int):
        around = _field_at(location[:-1])
        if around is None or not around.examples or not isinstance(container, list):
            return _mend(values, location[:-1])
        container[last] = copy.deepcopy(around.examples[0][0])
        return None
    if not isinstance(container, dict):
        return _mend(values, location[:-1])
    field = _field_at(location)
    if field and field.is_required() and field.examples:
        container[last] = copy.deepcopy(field.examples[0])
    else:
        container.pop(last, None)
    return None


def _sentence(several: Sequence[_Located], secret: bool) -> str:
    """The key, its value, what is allowed, and the nearest valid one where there is one."""
    first = several[0]
    kind, key, value = first.details["type"], key_of(first.location), first.details["input"]
    if kind == "missing":
        return f"{key} is missing: set it."
    if reason_of_removal := REMOVED_SETTINGS.get(key):
        return f"{key} is no longer a setting: {reason_of_removal}. Remove it."
    if kind == "extra_forbidden":
        return f"{shortened(key)} is no setting: {_instead(first)}"
    if first.is_key:
        *outer, name = first.location
        if secret:
            return f"{key_of(tuple(outer))} has a key that can't be used: {_reasons(several, secret)}"
        return f"{key_of(tuple(outer))} has the key {written(name)}: {_reasons(several, secret)}"
    if secret:
        return f"{key} can't be used: {_reasons(several, secret)}"
    if isinstance(value, str) and value.startswith("<"):
        return f"{key} is {written(value)}: fill it in."
    if date_of(value):
        return f"{key} is {written(value)}, which is a date to YAML: write it in quotes."
    shown = "empty" if value == "" else written(value)
    return f"{key} is {shown}: {_reasons(several, secret)}"


def _instead(one: _Located) -> str:
    """What to write instead of a key that is none."""
    name, allowed = str(one.location[-1]), aliases_at(one.spot)
    outer = _parts(name)[0]
    if name != outer and outer in allowed:
        return f"write it inside {key_of((*one.location[:-1], outer))}, as `pulumi config set --path` does."
    return nearest(name, allowed)


def _meant(one: _Located) -> str | None:
    *parents, name = one.location
    outer, *inner = _parts(str(name))
    allowed = aliases_at(one.spot)
    if inner and outer in allowed:
        return key_of((*parents, outer, *(int(part) if part.isdigit() else part for part in inner)))
    near = near_one(str(name), allowed)
    return key_of((*parents, near)) if near else None


def _parts(path: str) -> list[str]:
    """Of a key that is written as a path, such as `services[0].image`."""
    return [part for part in re.split(r"[.\[\]]+", path) if part] or [path]


def _reasons(several: Sequence[_Located], secret: bool) -> str:
    # A union has one for each of its types.
    reasons = list(dict.fromkeys(reason(one.details, one.spot, secret=secret) for one in several))
    return f"{', or '.join(reasons).rstrip('.')}{'' if reasons[-1].endswith('?') else '.'}"
