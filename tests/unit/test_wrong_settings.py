"""The check, the program and editors refuse each invalid settings file with its expected error."""

from __future__ import annotations

import re

import pulumi
import pytest
from jsonschema import Draft7Validator

from autoscaling.settings import SettingsError
from autoscaling.settings.errors import encryption_errors
from autoscaling.settings.stack import Settings
from autoscaling.settings.stack_file import SettingsFileError, StackFile, check_file, load, read_stack_file
from commands.docs.stack_schema import stack_schema
from tests.unit.program import Recorder, run_program
from tests.wrong_settings import WRONG_FILES, WrongFile

FILES = pytest.mark.parametrize("wrong", WRONG_FILES, ids=lambda wrong: wrong.path.stem)
STACKS = [(wrong, read_stack_file(wrong.path)) for wrong in WRONG_FILES]
SETTINGS = [(wrong, stack) for wrong, stack in STACKS if not stack.errors]
"""Errors in settings, not in the file: the engine gives these settings to the program."""
SCHEMA = Draft7Validator(stack_schema())


def test_the_files_have_at_least_sixty_different_errors() -> None:
    assert len({wrong.sentence for wrong in WRONG_FILES}) >= 60


@FILES
def test_the_check_reports_only_the_expected_error(wrong: WrongFile) -> None:
    with pytest.raises(SettingsError) as raised:
        check_file(wrong.path)
    assert raised.value.faults == [wrong.error]


@pytest.mark.parametrize(("wrong", "stack"), SETTINGS, ids=[wrong.path.stem for wrong, _ in SETTINGS])
def test_the_program_reports_the_same_error_before_creating_resources(wrong: WrongFile, stack: StackFile) -> None:
    recorder = Recorder()
    # The engine marks the whole setting as secret.
    encrypted = {re.split("[.[]", key)[0] for key in stack.encrypted}
    expected = [wrong.sentence]
    if wrong.path.stem.startswith("secret_") and stack.encrypted:
        expected = list(encryption_errors(encrypted, Settings))
        assert expected
    with pytest.raises(pulumi.RunError) as raised:
        run_program(stack.config, recorder, encrypted=[f"ackgpu:{key}" for key in encrypted])
    heading, *sentences = str(raised.value).splitlines()
    assert heading == "the configuration of stack unit cannot be used:"
    assert sentences == expected
    assert recorder.registrations == []
    assert recorder.calls == []


@FILES
def test_an_editor_reports_what_a_schema_can_express(wrong: WrongFile) -> None:
    try:
        content = load(wrong.path.read_text()).value
    except SettingsFileError:
        return
    assert SCHEMA.is_valid(content) is wrong.schema_passes
