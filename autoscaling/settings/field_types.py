"""The types of single values: numbers, names, durations and amounts, each with its limits.

A `Form` is one pattern for the models' check and for the schema that editors use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import durationpy
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

DATE_TEXT = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)? [-+][0-9]{4} \S+"
"""An unquoted date as the engine rewrites it."""

FORM = "form"
"""Type of the error for text that does not match a `Form`. Its message never contains the text."""

_MAX_NODES = 2000
"""Largest `max_size` of a node pool that the provider accepts."""

_MAX_DIGITS = 18
"""Python refuses to convert numbers with thousands of digits."""

_INT32_MAX = 2**31 - 1
"""Kubernetes' own type for numbers of replicas; every other count here is lower."""

_LARGEST_AMOUNT = 10**12
"""Metrics and prices stay far below this value; larger numbers are not exact."""


class Model(BaseModel):
    """A section of the settings."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=False,
        use_attribute_docstrings=True,
    )


@dataclass(frozen=True)
class Form:
    """The required form of text, for the metadata of `Annotated[str, ...]`.

    Args:
        pattern: a regular expression for the whole text, in the common part of Python's and ECMA's dialects.
        expected: the end of the message about other text, such as "must be a path".
    """

    pattern: str
    expected: str

    def check(self, value: str) -> str:
        """Return the text.

        Raises:
            PydanticCustomError: the text does not match.
        """
        if not re.fullmatch(self.pattern, value):
            raise PydanticCustomError(FORM, self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^({self.pattern})$"}


_DURATION = r"(?=[0-9])([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?"

MEMORY = r"[0-9]{1,15}(\.[0-9]{1,3})?([kMGT]|[KMGT]i)"
"""An amount of memory as a Kubernetes quantity with a suffix."""


def duration_seconds(text: str) -> int:
    """Return the seconds of a duration such as `30s`, `1h` or `1m30s`.

    Raises:
        ValueError: the text is not a duration.
    """
    return int(durationpy.from_str(text).total_seconds())


@dataclass(frozen=True)
class Duration(Form):
    """A duration within limits, in seconds; `expected` names the limits."""

    pattern: str = field(default=_DURATION, init=False)
    shortest: int
    longest: int

    def check(self, value: str) -> str:
        if not self.shortest <= duration_seconds(super().check(value)) <= self.longest:
            raise PydanticCustomError(FORM, self.expected)
        return value

    def _with_unit(self, value: object) -> object:
        # YAML reads a duration without a unit as a number.
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise PydanticCustomError(FORM, self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_before_validator_function(self._with_unit, inner)


def _digits(value: object) -> object:
    # `pulumi stack init` writes a number back in quotes.
    digits = isinstance(value, str) and re.fullmatch(rf"[0-9]{{1,{_MAX_DIGITS}}}", value)
    return int(digits[0]) if digits else value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return value
    return number if number.is_finite() and len(number.as_tuple().digits) <= _MAX_DIGITS else value


def _plain_number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


_FILLED_IN = Form(rf"(?!<|{DATE_TEXT})[\s\S]+", "must be text, not a <placeholder>")
_DNS_LABEL = Form(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    "must be a Kubernetes name (at most 63 lower-case letters, digits and '-', with a letter or digit at both ends)",
)
_INSTANCE_TYPE = Form(r"ecs\.[a-z0-9-]+(\.[a-z0-9-]+)+", "must be an ECS instance type, such as ecs.gn6i-c4g1.xlarge")
_IDENTIFIER = Form(
    r"[A-Za-z0-9][-A-Za-z0-9_.]*", "must start with a letter or digit, and have only letters, digits, '-', '_' and '.'"
)
_VSWITCH = Form(r"vsw-[a-z0-9-]+", "must be the ID of a vSwitch, such as vsw-bp1abc")

Text = Annotated[str, Field(min_length=1), _FILLED_IN]
Identifier = Annotated[Text, _IDENTIFIER]
Name = Annotated[str, _DNS_LABEL]
InstanceTypeName = Annotated[str, _INSTANCE_TYPE]
VSwitchId = Annotated[str, _VSWITCH]
UrlPath = Annotated[str, Form(r"/.*", "must be a path that starts with /, such as /predict?query=Music")]
Int = Annotated[int, BeforeValidator(_digits)]
Count = Annotated[Int, Field(ge=1, le=_INT32_MAX)]
NodeCount = Annotated[Int, Field(ge=1, le=_MAX_NODES)]
Amount = Annotated[
    Decimal,
    BeforeValidator(_number),
    PlainSerializer(_plain_number),
    Field(gt=0, le=_LARGEST_AMOUNT, decimal_places=3),
]
