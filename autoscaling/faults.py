"""What the models refuse, as sentences for the person who wrote the value."""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoscaling.forms import DATE_TEXT, FORM
from autoscaling.settings_model import Settings

Location = tuple[int | str, ...]
"""Keys of maps, and positions in lists, as in the user's file."""

LONGEST_VALUE = 80
"""Characters of a value that a sentence shows."""

_LONG_LIST = 10
"""Of more allowed values, a sentence shows the nearest alone, where there is one."""


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


def key_of(location: Location) -> str:
    """The key as the user wrote it, such as `services[0].autoscaler.target`."""
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def within(key: str, outer: str) -> bool:
    """Whether a key is the other one, or inside it."""
    return key.startswith(outer) and key[len(outer) : len(outer) + 1] in ("", ".", "[")


def faults_of(error: ValidationError, secrets: Collection[str] = ()) -> list[Fault]:
    """One fault a key, in the models' order.

    Args:
        error: what the models refused.
        secrets: keys whose values, and those inside them, are not shown.
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
        secret = any(within(key_of(location), outer) for outer in secrets)
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


def nearest(value: str, allowed: Sequence[str]) -> str:
    """Which of the allowed values was meant, else all of them."""
    near = _near(value, allowed)
    return f"did you mean {near}?" if near else f"allowed are {', '.join(allowed)}."


def written(value: object) -> str:
    """A value as YAML has it, on one line and cut to a readable length; a text in quotes."""
    if date := _date(value):
        text = date
    elif isinstance(value, str):
        style = "'" if value.isprintable() else '"'
        text = yaml.dump(value, Dumper=_OneLine, default_style=style, width=_NO_BREAK, allow_unicode=True)
    else:
        text = yaml.dump(value, Dumper=_OneLine, default_flow_style=True, width=_NO_BREAK, allow_unicode=True,
                         sort_keys=False)  # fmt: skip
    text = " ".join(text.removesuffix("...\n").split("\n")).strip()
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def limits(metadata: Sequence[Any]) -> str:
    """What a number may be, such as `from 1 to 65535` or `of at least 1`; empty where it may be any."""
    bounds: dict[type, Any] = {}
    for one in metadata:
        for kind, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
            if isinstance(one, kind):
                bounds[kind] = getattr(one, name)
    low, above, high, below = (bounds.get(kind) for kind in (Ge, Gt, Le, Lt))
    if low is not None and high is not None:
        return f"from {low} to {high}"
    words = {"of at least": low, "above": above, "of at most": high, "below": below}
    return " and ".join(f"{word} {bound}" for word, bound in words.items() if bound is not None)


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


class _OneLine(yaml.SafeDumper):
    """Without anchors, which nobody wrote."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_NO_BREAK = 2**31


def _date(value: object) -> str | None:
    """A date without quotes, as it was written or alike, where the engine made a text of its own of it."""
    if not isinstance(value, str) or not re.fullmatch(DATE_TEXT, value):
        return None
    day, time, zone, _ = value.split(" ")
    return day if time == "00:00:00" else f"{day} {time}{'' if zone == '+0000' else zone}"


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
        inner = _inside(spot, part)
        if inner is not None:
            location.append(part)
            around, spot, in_union = spot, inner, False
        elif part == "[key]":
            is_key = True
            maps = [get_args(one.annotation) for one in around if get_origin(one.annotation) is dict]
            spot = [one for key, _ in maps for one in alternatives(key)]
        elif part is last and details["type"] == "extra_forbidden":
            location.append(part)
        else:
            # What the library calls one of the types of a union.
            in_union = True
            spot = [one for one in spot if _named(one.annotation, part)] or spot
    return _Located(details, tuple(location), spot, is_key, in_union)


def _named(annotation: Any, part: int | str) -> bool:
    return getattr(annotation, "__name__", None) == part


def _inside(spot: Sequence[Alternative], part: int | str) -> list[Alternative] | None:
    """What may stand at a key or a position of a value; None where it has none such."""
    for one in spot:
        if models_at := [one.annotation] if _is_model(one.annotation) else []:
            for info in models_at[0].model_fields.values():
                if info.alias == part:
                    return alternatives(info.annotation, info.metadata)
        elif isinstance(part, int) and get_origin(one.annotation) in (list, tuple, set, frozenset):
            return alternatives(get_args(one.annotation)[0])
        elif isinstance(part, str) and part != "[key]" and get_origin(one.annotation) is dict:
            return alternatives(get_args(one.annotation)[1])
    return None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _field_at(location: Location) -> FieldInfo | None:
    *parents, last = location
    spot = [Alternative(Settings)]
    for part in parents:
        spot = _inside(spot, part) or []
    for one in spot:
        if _is_model(one.annotation):
            for info in one.annotation.model_fields.values():
                if info.alias == last:
                    return info  # type: ignore[no-any-return]
    return None


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
    if kind == "extra_forbidden":
        return f"{key} is no setting: {_instead(first)}"
    if first.is_key:
        *outer, name = first.location
        return f"{key_of(tuple(outer))} has the key {written(name)}: {_reasons(several, secret)}"
    if secret:
        return f"{key} is a secret, which is not shown, and wrong: {_reasons(several, secret)}"
    if isinstance(value, str) and value.startswith("<"):
        return f"{key} is {written(value)}: fill it in."
    if _date(value):
        return f"{key} is {written(value)}, which is a date to YAML: write it in quotes."
    shown = "empty" if value == "" else written(value)
    return f"{key} is {shown}: {_reasons(several, secret)}"


def _instead(one: _Located) -> str:
    """What to write instead of a key that is none."""
    name, allowed = str(one.location[-1]), _aliases_at(one.spot)
    outer = _parts(name)[0]
    if name != outer and outer in allowed:
        return f"write it inside {key_of((*one.location[:-1], outer))}, as `pulumi config set --path` does."
    return nearest(name, allowed)


def _meant(one: _Located) -> str | None:
    *parents, name = one.location
    outer, *inner = _parts(str(name))
    allowed = _aliases_at(one.spot)
    if inner and outer in allowed:
        return key_of((*parents, outer, *(int(part) if part.isdigit() else part for part in inner)))
    near = _near(str(name), allowed)
    return key_of((*parents, near)) if near else None


def _parts(path: str) -> list[str]:
    """Of a key that is written as a path, such as `services[0].image`."""
    return [part for part in re.split(r"[.\[\]]+", path) if part] or [path]


def _aliases_at(spot: Sequence[Alternative]) -> list[str]:
    return [alias for one in spot if _is_model(one.annotation) for alias in aliases(one.annotation)]


def _reasons(several: Sequence[_Located], secret: bool) -> str:
    # A union has one for each of its types.
    reasons = list(dict.fromkeys(_reason(one, secret) for one in several))
    return f"{', or '.join(reasons).rstrip('.')}{'' if reasons[-1].endswith('?') else '.'}"


def _reason(one: _Located, secret: bool) -> str:
    details, context = one.details, one.details.get("ctx", {})
    kind, value = details["type"], details["input"]
    metadata = [constraint for alternative in one.spot for constraint in alternative.metadata]
    if kind == "literal_error":
        allowed = [str(choice) for alternative in one.spot if get_origin(alternative.annotation) is Literal
                   for choice in get_args(alternative.annotation)]  # fmt: skip
        near = None if secret else _near(str(value), allowed)
        if near and len(allowed) > _LONG_LIST:
            return f"did you mean {near}?"
        return f"allowed are {', '.join(allowed)}{f'; did you mean {near}?' if near else ''}"
    if kind in ("model_type", "model_attributes_type"):
        keys = _aliases_at(one.spot)
        return f"a map is expected, with the key{'' if len(keys) == 1 else 's'} {', '.join(keys)}"
    if kind == "list_type":
        items = [item.annotation for each in one.spot for item in _inside([each], 0) or ()]
        if isinstance(value, dict):
            return "a list is expected; begin each of its entries with a `-`"
        example = written([value]) if not secret and value != "" and type(value) in items else None
        return f"a list is expected{f', such as {example}' if example else ''}"
    if kind in ("string_type", "string_sub_type"):
        return f"a text is expected{'; write it in quotes' if isinstance(value, bool | int | float) else ''}"
    if kind.startswith("int_") or (kind in _COMPARED and any(one.annotation is int for one in one.spot)):
        return f"a whole number {limits(metadata)} is expected".replace("  ", " ")
    if kind in _COMPARED or kind in ("is_instance_of", "finite_number") or kind.startswith(("float_", "decimal_type")):
        finite = "" if not isinstance(value, float) or math.isfinite(value) else "finite "
        return f"a {finite}number {limits(metadata)} is expected".replace("  ", " ")
    if kind == "decimal_max_places":
        return f"at most {context['decimal_places']} decimals are allowed"
    if kind in ("too_short", "string_too_short"):
        return f"at least {_count(context['min_length'], kind)} expected"
    if kind in ("too_long", "string_too_long"):
        return f"at most {_count(context['max_length'], kind)} allowed"
    if kind in _EXPECTED:
        return f"{_EXPECTED[kind]} is expected"
    if secret and kind != FORM:
        # The message may have the value.
        return "README.md says what is allowed"
    return details["msg"].removeprefix("Value error, ")


def _count(number: int, kind: str) -> str:
    one, many = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
    return f"one {one} is" if number == 1 else f"{number} {many} are"


_COMPARED = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_EXPECTED = {"bool_type": "true or false", "bool_parsing": "true or false", "dict_type": "a map"}


def _near(value: str, allowed: Sequence[str]) -> str | None:
    """The allowed value that is like it, whatever the case and the separators."""
    plain = {_plain(one): one for one in reversed(allowed)}
    near = difflib.get_close_matches(_plain(value), list(plain), n=1)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()) or name
