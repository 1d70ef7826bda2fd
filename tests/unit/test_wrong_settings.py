"""Each wrong stack file is told in its sentence: by the check, by the program before it makes anything, by editors."""

from __future__ import annotations

import re

import pulumi
import pytest
from jsonschema import Draft7Validator

from autoscaling.settings import SettingsError, engine_yaml
from autoscaling.settings.checked_file import check_file
from autoscaling.settings.stack_file import StackFile, read_stack_file
from commands.docs.stack_schema import stack_schema
from tests.unit.program import Recorder, run_program
from tests.wrong_settings import WRONG_FILES, WrongFile

FILES = pytest.mark.parametrize("wrong", WRONG_FILES, ids=lambda one: one.path.stem)
STACKS = [(one, read_stack_file(one.path)) for one in WRONG_FILES]
READABLE = [(one, stack) for one, stack in STACKS if stack.readable]
SCHEMA = Draft7Validator(stack_schema())


def test_there_are_at_least_sixty_and_no_two_are_told_alike() -> None:
    assert len({one.sentence for one in WRONG_FILES}) >= 60


@FILES
def test_the_check_says_what_the_file_expects_and_nothing_else(wrong: WrongFile) -> None:
    with pytest.raises(SettingsError) as raised:
        check_file(wrong.path)
    assert raised.value.faults == [wrong.told]


# The engine gives the program no file: what it refuses or ignores in a file is the check's to report.
WRONG_VALUES = [(wrong, stack) for wrong, stack in READABLE if not stack.faults]


@pytest.mark.parametrize(("wrong", "stack"), WRONG_VALUES, ids=[wrong.path.stem for wrong, _ in WRONG_VALUES])
def test_the_program_says_the_same_before_it_makes_anything(wrong: WrongFile, stack: StackFile) -> None:
    recorder = Recorder()
    # The engine marks the whole setting.
    encrypted = sorted({f"ackgpu:{re.split('[.[]', one)[0]}" for one in stack.encrypted})
    with pytest.raises(pulumi.RunError) as raised:
        run_program(stack.config, recorder, encrypted=encrypted)
    heading, *told = str(raised.value).splitlines()
    assert heading == "the configuration of stack unit cannot be used:"
    assert told == [wrong.sentence]
    assert recorder.registrations == []
    assert recorder.calls == []


@pytest.mark.parametrize(("wrong", "stack"), READABLE, ids=[one.path.stem for one, _ in READABLE])
def test_an_editor_tells_what_a_schema_can_tell(wrong: WrongFile, stack: StackFile) -> None:
    content = engine_yaml.load(wrong.path.read_text()).value
    assert SCHEMA.is_valid(content) is wrong.schema_passes
