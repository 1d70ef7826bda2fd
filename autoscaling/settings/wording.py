"""Parts of messages about settings: the value as written, the allowed values, the probable intention."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import yaml
from pydantic_core import ErrorDetails

from autoscaling.settings.field_types import DATE_TEXT, FORM

LONGEST_VALUE = 80
"""Maximum number of characters of a value that a message shows."""

_LONG_LIST = 10
"""From a longer list of allowed values, a message shows only the most similar value, if any."""

_NO_BREAK = 2**31
_COMPARED = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_ALLOWED = {"bool_type": "true or false", "dict_type": "a map"}


@dataclass(frozen=True)
class Place:
    """The constraints on a value."""

    annotation: Any
    """The type of the value."""
    metadata: tuple[Any, ...] = ()
    """The limits of the value."""
    keys: Sequence[str] = ()
    """Keys of a map, if known."""
    item: Any = None
    """The type of a list's entries."""


def nearest(value: str, allowed: Sequence[str]) -> str:
    """Return a hint with the most similar allowed value, or else with all of them."""
    near = near_one(value, allowed)
    return f"did you mean {near}?" if near else f"choose {_one_of(allowed)}."


def near_one(value: str, allowed: Sequence[str]) -> str | None:
    """Return the most similar allowed value, ignoring case and separators."""
    plain = {_plain(name): name for name in reversed(allowed)}
    near = difflib.get_close_matches(_plain(value), list(plain), n=1)
    return plain[near[0]] if near else None


def written(value: object) -> str:
    """Return a value in YAML, on one line and cut to a readable length; text is in quotes."""
    if date := date_of(value):
        text = date
    elif isinstance(value, str):
        style = "'" if value.isprintable() else '"'
        text = yaml.dump(value, Dumper=_OneLine, default_style=style, width=_NO_BREAK, allow_unicode=True)
    else:
        text = yaml.dump(value, Dumper=_OneLine, default_flow_style=True, width=_NO_BREAK, allow_unicode=True,
                         sort_keys=False)  # fmt: skip
    return shortened(text.removesuffix("...\n"))


def shortened(text: str) -> str:
    """Return a text on one line, cut to a readable length."""
    line = " ".join(text.split("\n")).strip()
    return line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 3]}..."


def date_of(value: object) -> str | None:
    """Return an unquoted date as the user wrote it, from the text that the engine turns it into."""
    if not isinstance(value, str) or not re.fullmatch(DATE_TEXT, value):
        return None
    day, time, zone, _ = value.split(" ")
    return day if time == "00:00:00" else f"{day} {time}{'' if zone == '+0000' else zone}"


def limits(metadata: Sequence[Any]) -> str:
    """Return the limits of a number, such as `from 1 to 65535`; empty if there are none."""
    bounds = {
        name: getattr(constraint, name)
        for constraint in metadata
        for name in ("ge", "gt", "le")
        if hasattr(constraint, name)
    }
    if not bounds:
        return ""
    return (
        f"from {bounds['ge']} to {bounds['le']}" if "ge" in bounds else f"above {bounds['gt']} and up to {bounds['le']}"
    )


def reason(details: ErrorDetails, place: Place, *, secret: bool) -> str:
    """Return why the models refuse a value, as the end of a sentence about the value.

    Args:
        details: the models' error.
        place: the constraints on the value.
        secret: whether the value must not be shown.
    """
    context = details.get("ctx", {})
    kind, value = details["type"], details["input"]
    if kind == "literal_error":
        return _choices([str(choice) for choice in get_args(place.annotation)], None if secret else str(value))
    if kind == "model_type":
        return f"must be a map with the key{'' if len(place.keys) == 1 else 's'} {', '.join(place.keys)}"
    if kind == "list_type":
        if isinstance(value, dict):
            return "must be a list; begin each entry with a `-`"
        is_item = not secret and value != "" and type(value) is place.item
        return f"must be a list{f', such as {written([value])}' if is_item else ''}"
    if kind == "string_type":
        return f"must be text{'; write it in quotes' if isinstance(value, bool | int | float) else ''}"
    if kind == "int_type" or (kind in _COMPARED and place.annotation is int):
        return f"must be a whole number {limits(place.metadata)}".rstrip()
    if kind in _COMPARED or kind == "is_instance_of":
        finite = "" if not isinstance(value, float) or math.isfinite(value) else "finite "
        return f"must be a {finite}number {limits(place.metadata)}".rstrip()
    if kind == "decimal_max_places":
        return f"must have at most {context['decimal_places']} decimal places"
    if kind in ("too_short", "string_too_short"):
        return f"must have at least {_count(context['min_length'], kind)}"
    if kind == "too_long":
        return f"must have at most {_count(context['max_length'], kind)}"
    if kind in _ALLOWED:
        return f"must be {_ALLOWED[kind]}"
    if secret and kind != FORM:
        # The message may contain the value.
        return "docs/settings.md lists the allowed values"
    return details["msg"].removeprefix("Value error, ")


def _choices(allowed: Sequence[str], value: str | None) -> str:
    near = near_one(value, allowed) if value else None
    if near and len(allowed) > _LONG_LIST:
        return f"did you mean {near}?"
    # With two allowed values, a hint adds nothing.
    return f"must be {_one_of(allowed)}{f'; did you mean {near}?' if near and len(allowed) > 2 else ''}"


def _one_of(allowed: Sequence[str]) -> str:
    return " or ".join(allowed) if len(allowed) <= 2 else f"one of {', '.join(allowed)}"


def _count(number: int, kind: str) -> str:
    singular, plural = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
    return f"one {singular}" if number == 1 else f"{number} {plural}"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()) or name


class _OneLine(yaml.SafeDumper):
    """Write no anchors, because users rarely write them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
