"""What a text must look like: one pattern for the models' check and for the schema that editors use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

DATE_TEXT = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)? [-+][0-9]{4} \S+"
"""What the engine makes of a date without quotes."""

FORM = "form"
"""Kind of the error of a text that has another form; its message never has the text."""


@dataclass(frozen=True)
class Form:
    """For the metadata of `Annotated[str, ...]`.

    Args:
        pattern: a regular expression in what Python's and ECMA's dialects share, for the whole text.
        expected: what such a text is, for the sentence about one that is none.
    """

    pattern: str
    expected: str

    def matched(self, value: str) -> re.Match[str]:
        """How the text is made up.

        Raises:
            ValueError: it is none of the kind.
        """
        match = re.fullmatch(self.pattern, value)
        if match is None:
            raise PydanticCustomError(FORM, self.expected)
        return match

    def _checked(self, value: str) -> str:
        self.matched(value)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^({self.pattern})$"}


@dataclass(frozen=True)
class DurationForm(Form):
    """A duration within limits, in seconds; `expected` names them."""

    shortest: int
    longest: int

    def _checked(self, value: str) -> str:
        if not self.shortest <= self.seconds(value) <= self.longest:
            raise PydanticCustomError(FORM, self.expected)
        return value

    def seconds(self, value: str) -> int:
        """Seconds of a duration such as `30s`, `1m` or `1m30s`.

        Raises:
            ValueError: it is not written so.
        """
        match = self.matched(value)
        return int(match[1] or 0) * 60 + int(match[2] or 0)

    def _with_unit(self, value: object) -> object:
        # YAML makes a number of a duration without its unit.
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise PydanticCustomError(FORM, self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_before_validator_function(self._with_unit, inner)
