"""Stack files are read as the engine reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from autoscaling.settings.engine_config import setting_values
from autoscaling.settings.stack_file import SettingsFileError, load, read_stack_file
from tests import engine_values
from tests.engine_values import AT_TOP, INSIDE

CHECKOUT = Path(__file__).parents[2]


def test_the_check_and_the_program_read_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.unit.yaml"
    path.write_text(engine_values.stack_file())
    expected = engine_values.values_in_program()
    config = read_stack_file(path).config
    assert json.loads(config["ackgpu:inside"]) == expected.pop("ackgpu:inside")
    assert json.loads(config.pop("other:key")) == json.loads(expected.pop("other:key"))
    del config["ackgpu:inside"]
    assert config == expected


@pytest.mark.parametrize(("written", "value"), INSIDE.items())
def test_reads_values_as_the_engine_does(written: str, value: object) -> None:
    read = load(f"key: {written}").value["key"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(("written", "text"), AT_TOP.items())
def test_the_check_and_the_engine_parse_json_in_a_top_level_value(written: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.unit.yaml"
    path.write_text(f"config: {{ackgpu:key: {written}}}")
    [value] = setting_values(read_stack_file(path).config).values()
    assert value == (json.loads(text) if text.startswith(("[", "{")) else text)


def test_an_ordinary_file_is_read_as_by_other_libraries() -> None:
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text()
    document = load(text)
    assert document.value == yaml.safe_load(text)
    assert document.octals == {}


def test_each_value_has_the_line_of_its_key() -> None:
    lines = load("a: 1\nb:\n  # a comment\n  c:\n    - d\n    - {e: 1,\n       f: 2}\n").lines
    assert {key: line for key, line in lines.items() if key} == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 4,
        ("b", "c", 0): 5,
        ("b", "c", 1): 6,
        ("b", "c", 1, "e"): 6,
        ("b", "c", 1, "f"): 7,
    }


def test_a_merged_map_adds_only_missing_keys() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {z: 4, x: 5}\nc: {<<: *a, x: 3}\nd: {<<: [*a, *b]}\n"
    value = load(text).value
    assert value["c"] == {"x": 3, "y": 2}
    assert value["d"] == {"x": 1, "y": 2, "z": 4}


def test_each_octal_number_is_reported() -> None:
    document = load("a: 010\nb: [0, 00, 0x10, '010', 0_7]\n")
    assert document.value == {"a": 8, "b": [0, 0, 16, "010", 7]}
    assert document.octals.keys() == {1}, "other numbers are decimal"


def test_deep_nesting_ends_without_a_traceback() -> None:
    assert load("[" * 99 + "]" * 99)
    with pytest.raises(SettingsFileError, match="nested too deep"):
        load("[" * 5000 + "]" * 5000)
