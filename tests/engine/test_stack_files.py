"""Settings files in the real engine, which passes the values that the check expects and refuses invalid files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest
from pulumi import automation
from pulumi.runtime.config import CONFIG, get_config_env

from rehearsal.automation import engine_options
from rehearsal.layout import CHECKOUT
from tests import engine_values
from tests.engine.conftest import Rehearsal
from tests.wrong_settings import FOLDER, wrong_file

REPORTED = (
    "type_date_for_text",
    "rule_label_without_a_kind",
    "secret_in_plain_text",
    "between_target_and_range",
)
REFUSED = ("file_key_twice", "file_tab", "file_number_as_key")
"""The engine refuses these before it runs the program."""


@pytest.fixture(autouse=True)
def reset(rehearsal: Rehearsal) -> Iterator[None]:
    yield
    rehearsal.reset()


def preview_error(rehearsal: Rehearsal, name: str) -> str:
    """Return the error of a preview with a wrong file, after adding the encryption salt to the file."""
    content = (FOLDER / f"{name}.yaml").read_text()
    salt = re.findall(r"^encryptionsalt: .*\n", (CHECKOUT / "Pulumi.rehearsal.yaml").read_text(), re.MULTILINE)
    rehearsal.stack_file.write_text(content.replace("config:\n", f"{salt[0]}config:\n", 1))
    with pytest.raises(automation.CommandError) as raised:
        rehearsal.stack.preview(color="never")
    return str(raised.value)


@pytest.mark.parametrize("name", REPORTED)
def test_the_program_reports_the_error_and_plans_no_resources(rehearsal: Rehearsal, name: str) -> None:
    error = preview_error(rehearsal, name)
    assert "the configuration of stack rehearsal cannot be used:" in error
    assert wrong_file(FOLDER / f"{name}.yaml").sentence in error
    assert "Traceback" not in error
    assert "alicloud:" not in error, "no resource except the stack"


@pytest.mark.parametrize("name", REFUSED)
def test_the_engine_refuses_files_that_it_cannot_parse(rehearsal: Rehearsal, name: str) -> None:
    error = preview_error(rehearsal, name)
    assert "error: getting stack configuration" in error
    assert "cannot be used" not in error


def test_a_run_with_another_config_file_ignores_the_stack_file(rehearsal: Rehearsal, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    shutil.copyfile(rehearsal.stack_file, other)
    rehearsal.stack_file.write_text("config:\n  ackgpu:region: nowhere\nackgpu:services: []\n")
    assert rehearsal.stack.preview(color="never", config_file=str(other)).change_summary


def test_a_program_receives_the_values_that_the_check_expects(rehearsal: Rehearsal, tmp_path: Path) -> None:
    received: dict[str, str] = {}

    def program() -> None:
        received.update({**get_config_env(), **CONFIG.get()})
        pulumi.export("done", True)

    options = engine_options(rehearsal.layout)
    options.work_dir = str(tmp_path)
    options.project_settings = automation.ProjectSettings("ackgpu", "python")
    (tmp_path / "Pulumi.values.yaml").write_text(engine_values.stack_file())
    stack = automation.create_or_select_stack("values", "ackgpu", program, opts=options)
    try:
        stack.preview(color="never")
    finally:
        stack.workspace.remove_stack("values")
    expected = engine_values.values_in_program()
    assert json.loads(received.pop("ackgpu:inside")) == expected.pop("ackgpu:inside")
    assert received == expected


def test_the_engine_keeps_the_schema_comment_for_editors(rehearsal: Rehearsal) -> None:
    first = rehearsal.stack_file.read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    rehearsal.stack.set_config("waitForMetrics", automation.ConfigValue("7m"))
    content = rehearsal.stack_file.read_text()
    assert "ackgpu:waitForMetrics: 7m" in content
    assert content.splitlines()[0] == first
