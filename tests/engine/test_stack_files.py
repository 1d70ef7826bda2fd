"""Settings files as the real engine reads them: its values are those of the check, and it refuses what is invalid."""

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

NAMES = (
    "type_date_for_text",
    "rule_label_without_a_kind",
    "secret_in_plain_text",
    "between_target_and_range",
)
REFUSED = ("file_key_twice", "file_tab", "file_number_as_key")
"""By the engine, before the program runs."""


@pytest.fixture(autouse=True)
def reset(rehearsal: Rehearsal) -> Iterator[None]:
    yield
    rehearsal.reset()


def previewed(rehearsal: Rehearsal, name: str) -> str:
    """What a preview says of a wrong file, which has the salt that the engine would write into it."""
    content = (FOLDER / f"{name}.yaml").read_text()
    salt = re.findall(r"^encryptionsalt: .*\n", (CHECKOUT / "Pulumi.rehearsal.yaml").read_text(), re.MULTILINE)
    rehearsal.stack_file.write_text(content.replace("config:\n", f"{salt[0]}config:\n", 1))
    with pytest.raises(automation.CommandError) as raised:
        rehearsal.stack.preview(color="never")
    return str(raised.value)


@pytest.mark.parametrize("name", NAMES)
def test_the_program_says_what_is_wrong_and_nothing_is_planned(rehearsal: Rehearsal, name: str) -> None:
    said = previewed(rehearsal, name)
    assert "the configuration of stack rehearsal cannot be used:" in said
    assert wrong_file(FOLDER / f"{name}.yaml").sentence in said
    assert "Traceback" not in said
    assert "alicloud:" not in said, "no resource but the stack itself"


@pytest.mark.parametrize("name", REFUSED)
def test_what_never_comes_to_the_program_is_refused_by_the_engine(rehearsal: Rehearsal, name: str) -> None:
    said = previewed(rehearsal, name)
    assert "error: getting stack configuration" in said
    assert "cannot be used" not in said


def test_a_run_with_another_config_file_ignores_the_stack_file(rehearsal: Rehearsal, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    shutil.copyfile(rehearsal.stack_file, other)
    rehearsal.stack_file.write_text("config:\n  ackgpu:region: nowhere\nackgpu:services: []\n")
    assert rehearsal.stack.preview(color="never", config_file=str(other)).change_summary


def test_values_come_to_a_program_as_to_the_check(rehearsal: Rehearsal, tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    def program() -> None:
        seen.update({**get_config_env(), **CONFIG.get()})
        pulumi.export("seen", True)

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
    assert json.loads(seen.pop("ackgpu:inside")) == expected.pop("ackgpu:inside")
    assert seen == expected


def test_the_engine_keeps_the_line_by_which_editors_find_the_schema(rehearsal: Rehearsal) -> None:
    first = rehearsal.stack_file.read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    rehearsal.stack.set_config("waitForMetrics", automation.ConfigValue("7m"))
    content = rehearsal.stack_file.read_text()
    assert "ackgpu:waitForMetrics: 7m" in content
    assert content.splitlines()[0] == first
