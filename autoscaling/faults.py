"""What the models refuse, as sentences for the person who wrote the value."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoscaling.settings_model import Settings

_Location = tuple[int | str, ...]

_EXPECTED = {
    "string_type": "a text is expected; write it in quotes",
    "string_too_short": "a text is expected",
    "list_type": "a list is expected",
    "dict_type": "a map is expected",
    "bool_type": "true or false is expected",
    "too_short": "at least one entry is expected",
    "too_long": "at most 10 entries are allowed",
    "is_instance_of": "a number above 0 is expected",
    "greater_than": "a number above 0 is expected",
    "decimal_max_places": "at most 3 decimals are allowed, since the adapter's values have no more",
}


def key_of(location: _Location) -> str:
    """The key as the user wrote it, such as `services[0].autoscaler.target`."""
    key = ""
    for part in _within_the_file(location):
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def sentence_of(fault: ErrorDetails) -> str:
    """The key, its value, what is allowed, and the nearest valid one where there is one."""
    kind, location = fault["type"], fault["loc"]
    key, value = key_of(location), fault["input"]
    if kind == "missing":
        return f"{key} is missing: set it."
    if kind == "extra_forbidden":
        allowed = list(aliases(_model_at(location[:-1])))
        return f"{key} is no setting: {nearest(str(location[-1]), allowed)}"
    if isinstance(value, str) and value.startswith("<"):
        return f"{key} is {value!r}: fill it in."
    return f"{key} is {value!r}: {_reason(fault)}"


def nearest(value: str, allowed: Sequence[str]) -> str:
    """Which of the allowed values was meant, else all of them."""
    near = difflib.get_close_matches(value, allowed, n=1)
    return f"did you mean {near[0]}?" if near else f"allowed are {', '.join(allowed)}."


def without_faults(values: Mapping[str, Any], faults: Sequence[ErrorDetails]) -> dict[str, Any]:
    """The values, with what is faulty left out or, where it is required, replaced by the model's example."""
    rest = copy.deepcopy(dict(values))
    for fault in faults:
        *parents, last = _within_the_file(fault["loc"])
        container: Any = rest
        for part in parents:
            container = container[part]
        field = _field_at(tuple(fault["loc"]))
        if isinstance(last, int):
            container[last] = field.examples[0][0] if field and field.examples else None
        elif field and field.is_required() and field.examples:
            container[last] = copy.deepcopy(field.examples[0])
        else:
            container.pop(last, None)
    return rest


def _within_the_file(location: _Location) -> _Location:
    # How pydantic says that a map's key, and not its value, is at fault.
    return location[:-1] if location[-1:] == ("[key]",) else location


def _reason(fault: ErrorDetails) -> str:
    kind, location = fault["type"], fault["loc"]
    field = _field_at(location)
    if kind == "literal_error" and field:
        allowed = get_args(field.annotation)
        near = difflib.get_close_matches(str(fault["input"]), allowed, n=1)
        return f"allowed are {', '.join(allowed)}{f'; did you mean {near[0]}?' if near else '.'}"
    if kind == "model_type":
        return f"a map is expected, with the keys {', '.join(aliases(_model_at(location)))}."
    if kind in ("int_type", "greater_than_equal", "less_than_equal") and field:
        return f"a whole number {limits(field)} is expected."
    if kind in _EXPECTED:
        return f"{_EXPECTED[kind]}."
    return f"{fault['msg'].removeprefix('Value error, ')}."


def limits(field: FieldInfo) -> str:
    """What a whole number may be, such as `from 1 to 65535` or `of at least 1`."""
    constraints = [*field.metadata, *(one for argument in get_args(field.annotation) for one in _metadata(argument))]
    low = next((one.ge for one in constraints if isinstance(one, Ge)), None)
    high = next((one.le for one in constraints if isinstance(one, Le)), None)
    return f"of at least {low}" if high is None else f"from {low} to {high}"


def _metadata(annotation: Any) -> Iterator[Any]:
    for one in getattr(annotation, "__metadata__", ()):
        yield from one.metadata if isinstance(one, FieldInfo) else (one,)


def _field_at(location: _Location) -> FieldInfo | None:
    """The field a location ends in; for an item of a list, the list's."""
    names = [part for part in location if isinstance(part, str)]
    model: type[BaseModel] = Settings
    for position, name in enumerate(names):
        field = next((info for info in model.model_fields.values() if info.alias == name), None)
        if field is None or position == len(names) - 1:
            return field
        inner = next(models(field.annotation), None)
        if inner is None:
            # A key of the user's own.
            return field
        model = inner
    return None


def _model_at(location: _Location) -> type[BaseModel]:
    field = _field_at(location)
    return next(models(field.annotation)) if field else Settings


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation, such as that of `list[Service]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


def aliases(model: type[BaseModel]) -> Iterator[str]:
    """The model's keys, as users write them."""
    return (str(info.alias) for info in model.model_fields.values())
