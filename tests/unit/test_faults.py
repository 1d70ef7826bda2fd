"""Key and value in error messages, for every kind of model."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from autoscaling.settings import errors
from autoscaling.settings.errors import model_errors
from autoscaling.settings.wording import LONGEST_VALUE, limits, nearest, written


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


def never(value: str) -> str:
    raise ValueError(f"{value} is not liked")


class Inner(_Model):
    count: Annotated[int, Field(ge=1, le=5)] = 1
    disliked: Annotated[str, AfterValidator(never)] = ""


class Outer(_Model):
    text: str = ""
    list_of_maps: list[Inner] | None = None
    a_map: Inner = Inner()
    several_maps: dict[str, Annotated[int, Field(ge=0, le=9)]] = {}
    keyed: dict[Literal["first", "second"], Inner] = {}
    nested: list[list[Annotated[int, Field(ge=1, le=8)]]] | None = None
    between: Annotated[Decimal, Field(gt=0, le=1)] = Decimal("0.5")


def sentences(values: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(values)
    return model_errors(raised.value, Outer, {"aMap.old": "it had no effect"})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"text": 7}, "text is 7: must be text; write it in quotes."),
        ({"aMap": {"count": 9}}, "aMap.count is 9: must be a whole number from 1 to 5."),
        ({"aMap": 9}, "aMap is 9: must be a map with the keys count, disliked."),
        ({"listOfMaps": [{}, {"coont": 1}]}, "listOfMaps[1].coont is not a setting: did you mean count?"),
        ({"aMap": {"old": 1}}, "aMap.old is no longer a setting, because it had no effect: remove it."),
        ({"listOfMaps": {}}, "listOfMaps is {}: must be a list; begin each entry with a `-`."),
        ({"severalMaps": {"a": 1, "b": "x"}}, "severalMaps.b is 'x': must be a whole number from 0 to 9."),
        ({"severalMaps": []}, "severalMaps is []: must be a map."),
        ({"keyed": {"third": {}}}, "keyed has the key 'third': the key must be first or second."),
        ({"keyed": {"first": {"count": None}}}, "keyed.first.count is null: must be a whole number from 1 to 5."),
        ({"nested": [[1], [2, 9]]}, "nested[1][1] is 9: must be a whole number from 1 to 8."),
        ({"nested": [1]}, "nested[0] is 1: must be a list, such as [1]."),
        ({"between": 1.5}, "between is 1.5: must be a number above 0 and up to 1."),
        ({"between": "0.5"}, "between is '0.5': must be a number above 0 and up to 1."),
    ],
)
def test_an_error_names_the_key_that_the_user_wrote(values: dict[str, Any], sentence: str) -> None:
    assert sentences(values) == [sentence]


def test_all_errors_of_the_models_are_reported() -> None:
    values = {"nested": [[9, 9], [1]], "severalMaps": {"a": "x", "b": "y", "c": 1}}
    assert len(sentences(values)) == 4


@pytest.mark.parametrize(
    ("value", "as_yaml"),
    [
        (None, "null"),
        (True, "true"),
        (20, "20"),
        (0.5, "0.5"),
        (float("nan"), ".nan"),
        ("20%", "'20%'"),
        ("it's", "'it''s'"),
        ("a\nb", '"a\\nb"'),
        ("名", "'名'"),
        (date(2026, 11, 30), "2026-11-30"),
        ("2026-11-30 00:00:00 +0000 UTC", "2026-11-30"),
        ({"a": 1, "b": [None, "x"]}, "{a: 1, b: [null, x]}"),
        ([], "[]"),
    ],
)
def test_a_value_is_shown_as_yaml_has_it(value: object, as_yaml: str) -> None:
    assert written(value) == as_yaml


def test_a_long_value_is_cut() -> None:
    for value in ("x" * 10_000, ["x" * 50] * 50):
        shown = written(value)
        assert len(shown) == LONGEST_VALUE
        assert shown.endswith("...")


def test_a_list_used_twice_is_written_twice() -> None:
    again = ["x"]
    assert written([again, again]) == "[[x], [x]]"


@pytest.mark.parametrize("meant", ["minReplicas", "gpuMemoryGiB"])
def test_a_name_is_recognised_in_other_spellings(meant: str) -> None:
    allowed = ["minReplicas", "maxReplicas", "gpuMemoryGiB", "gpus"]
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in meant)
    for spelling in (meant.upper(), snake, snake.replace("_", "-"), meant[:-1]):
        assert nearest(spelling, allowed) == f"did you mean {meant}?"
    assert nearest("zzz", allowed) == f"choose one of {', '.join(allowed)}."


def test_only_limits_that_are_set_are_returned() -> None:
    field = Inner.model_fields["count"]
    assert limits(field.metadata) == "from 1 to 5"
    assert limits([]) == ""


def test_an_error_never_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "text": 70707,
        "between": 70707,
        "severalMaps": {"a": "70707"},
        "listOfMaps": [{"count": 70707}, {"disliked": "70707"}],
        "aMap": {"disliked": "70707"},
        "nested": [70707],
    }
    assert "70707" in "".join(sentences(values))
    monkeypatch.setattr(errors, "MAY_BE_ENCRYPTED", ("text", "between", "severalMaps", "listOfMaps", "aMap", "nested"))
    shown = sentences(values)
    assert len(shown) == 7
    assert all(" can't be used: " in sentence for sentence in shown)
    assert "70707" not in "".join(shown)
