"""A stack's file is read as the engine reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from autoscaling.settings import engine_yaml
from autoscaling.settings.config_values import setting_values
from autoscaling.settings.stack_file import read_stack_file
from tests import engine_values
from tests.engine_values import AT_TOP, INSIDE

CHECKOUT = Path(__file__).parents[2]


def test_keys_reach_the_check_as_they_reach_the_program(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.unit.yaml"
    path.write_text(engine_values.stack_file())
    expected = engine_values.as_the_program_gets_them()
    config = read_stack_file(path).config
    assert json.loads(config["ackgpu:inside"]) == expected.pop("ackgpu:inside")
    assert json.loads(config.pop("other:key")) == json.loads(expected.pop("other:key"))
    del config["ackgpu:inside"]
    assert config == expected


@pytest.mark.parametrize(("written", "value"), INSIDE.items())
def test_a_value_is_the_engines(written: str, value: object) -> None:
    read = engine_yaml.load(f"key: {written}").value["key"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(("written", "text"), AT_TOP.items())
def test_what_looks_like_json_at_the_top_is_taken_apart_by_both(written: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.unit.yaml"
    path.write_text(f"config: {{ackgpu:key: {written}}}")
    [value] = setting_values(read_stack_file(path).config).values()
    assert value == (json.loads(text) if text.startswith(("[", "{")) else text)


def test_a_file_without_surprises_is_read_as_by_any_other_library() -> None:
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text()
    document = engine_yaml.load(text)
    assert document.value == yaml.safe_load(text)
    assert document.faults == []


def test_each_value_has_the_line_of_its_key() -> None:
    lines = engine_yaml.load("a: 1\nb:\n  # a comment\n  c:\n    - d\n    - {e: 1,\n       f: 2}\n").lines
    assert {key: line for key, line in lines.items() if key} == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 4,
        ("b", "c", 0): 5,
        ("b", "c", 1): 6,
        ("b", "c", 1, "e"): 6,
        ("b", "c", 1, "f"): 7,
    }


def test_a_merged_map_gives_what_the_map_itself_has_not() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {z: 4, x: 5}\nc: {<<: *a, x: 3}\nd: {<<: [*a, *b]}\n"
    value = engine_yaml.load(text).value
    assert value["c"] == {"x": 3, "y": 2}
    assert value["d"] == {"x": 1, "y": 2, "z": 4}


def test_all_faults_of_a_file_are_told_with_their_lines() -> None:
    document = engine_yaml.load("a: 1\nb: {c: 1, c: 2}\na: 2\nd: 010\n3: x\n---\nb: 1\n")
    assert [(fault.line, fault.path) for fault in document.faults] == [
        (2, ("b", "c")),
        (3, ("a",)),
        (4, ("d",)),
        (5, ()),
        (7, ()),
    ]
    assert document.value == {"a": 1, "b": {"c": 1}, "d": 8}


def test_no_depth_ends_in_a_traceback() -> None:
    for depth in (99, 150, 400):
        document = engine_yaml.load("[" * depth + "]" * depth)
        assert [fault.sentence for fault in document.faults] == (
            [] if depth < 100 else ["maps or lists are nested too deep: no setting is."]
        )
