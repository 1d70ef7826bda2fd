"""Words of the sentences on wrong settings: the value as it was written, what is allowed, what was meant."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic_core import ErrorDetails

from autoscaling.settings.field_types import DATE_TEXT, FORM
from autoscaling.settings.model_keys import Alternative, aliases_at, inside

LONGEST_VALUE = 80
"""Characters of a value that a sentence shows."""

_LONG_LIST = 10
"""Of more allowed values, a sentence shows the nearest alone, where there is one."""

_NO_BREAK = 2**31
_COMPARED = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_EXPECTED = {"bool_type": "true or false", "bool_parsing": "true or false", "dict_type": "a map"}


def nearest(value: str, allowed: Sequence[str]) -> str:
    """Which of the allowed values was meant, else all of them."""
    near = near_one(value, allowed)
    return f"did you mean {near}?" if near else f"allowed are {', '.join(allowed)}."


def near_one(value: str, allowed: Sequence[str]) -> str | None:
    """The allowed value that is like it, whatever the case and the separators."""
    plain = {_plain(one): one for one in reversed(allowed)}
    near = difflib.get_close_matches(_plain(value), list(plain), n=1)
    return plain[near[0]] if near else None


def written(value: object) -> str:
    """A value as YAML has it, on one line and cut to a readable length; a text in quotes."""
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
    """A text on one line, cut to a readable length."""
    line = " ".join(text.split("\n")).strip()
    return line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 3]}..."


def date_of(value: object) -> str | None:
    """A date without quotes, as it was written or alike, where the engine made a text of its own of it."""
    if not isinstance(value, str) or not re.fullmatch(DATE_TEXT, value):
        return None
    day, time, zone, _ = value.split(" ")
    return day if time == "00:00:00" else f"{day} {time}{'' if zone == '+0000' else zone}"


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
    if above is not None and high is not None:
        return f"above {above} and up to {high}"
    words = {"of at least": low, "above": above, "of at most": high, "below": below}
    return " and ".join(f"{word} {bound}" for word, bound in words.items() if bound is not None)


def reason(details: ErrorDetails, spot: Sequence[Alternative], *, secret: bool) -> str:
    """Why the models refuse a value: what is allowed, without a full stop.

    Args:
        details: the models' error.
        spot: what may stand there.
        secret: whether nothing of the value may be shown.
    """
    context = details.get("ctx", {})
    kind, value = details["type"], details["input"]
    metadata = [constraint for alternative in spot for constraint in alternative.metadata]
    if kind == "literal_error":
        allowed = [str(choice) for alternative in spot if get_origin(alternative.annotation) is Literal
                   for choice in get_args(alternative.annotation)]  # fmt: skip
        near = None if secret else near_one(str(value), allowed)
        if near and len(allowed) > _LONG_LIST:
            return f"did you mean {near}?"
        # Of two, the reader sees which is nearer, and by what it means.
        near = near if len(allowed) > 2 else None
        return f"allowed are {', '.join(allowed)}{f'; did you mean {near}?' if near else ''}"
    if kind in ("model_type", "model_attributes_type"):
        keys = aliases_at(spot)
        return f"a map is expected, with the key{'' if len(keys) == 1 else 's'} {', '.join(keys)}"
    if kind == "list_type":
        items = [item.annotation for each in spot for item in inside([each], 0) or ()]
        if isinstance(value, dict):
            return "a list is expected; begin each of its entries with a `-`"
        example = written([value]) if not secret and value != "" and type(value) in items else None
        return f"a list is expected{f', such as {example}' if example else ''}"
    if kind in ("string_type", "string_sub_type"):
        return f"a text is expected{'; write it in quotes' if isinstance(value, bool | int | float) else ''}"
    if kind.startswith("int_") or (kind in _COMPARED and any(one.annotation is int for one in spot)):
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


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()) or name


class _OneLine(yaml.SafeDumper):
    """Without anchors, which nobody wrote."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
