"""README.md and CONTRIBUTING.md say what is so; their commands run in `tests/engine/test_readme.py`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from autoscaling.settings import Settings
from commands.command_line import COMMANDS
from commands.docs import reference
from tests.readme import CHECKOUT, README, Command, commands

PAGES = [README, CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def targets() -> list[str]:
    """The targets of the Makefile, without the former names of commands."""
    groups: list[str] = re.findall(r"^\.PHONY: (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    return groups[0].split()


def code_spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("path", reference.documents(), ids=lambda path: path.name)
def test_what_is_written_from_the_models_is_up_to_date(path: Path) -> None:
    assert path.read_text() == reference.documents()[path], "run `make docs`"


def test_the_engine_asks_for_no_key_so_that_the_program_can_say_all_that_is_missing() -> None:
    keys = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["config"]
    assert [key for key, value in keys.items() if "default" not in value] == []
    assert len(keys) == len(Settings.model_fields)


def test_a_setting_is_a_row_with_its_whole_key_what_is_allowed_and_its_default() -> None:
    rows = reference.settings_table().splitlines()
    assert "| `services[].port` | Port of the load balancer | 1 to 65535 | `80` |" in rows
    assert any(row.startswith("| `gpuNodePool.autoscaling.max` ") and row.endswith("| required |") for row in rows)
    [managed_by] = [row for row in rows if row.startswith("| `prometheus.managedBy` ")]
    assert managed_by.endswith(" | `instance`, `addon`, `existing` | `instance` |")


def test_every_section_with_commands_is_run() -> None:
    assert set(commands()) == {
        "The two commands",
        "By hand on the rehearsal cloud",
        "On ACK",
        "Adopting what the guide made",
        "State, lock and secrets",
        "Changes",
    }


def test_a_promise_is_kept_by_the_same_words_whatever_was_measured() -> None:
    promise = Command("", "TARGETS  AGE\n22.96/20 7s\n...\nall steps passed\n")
    assert promise.keeps("TARGETS AGE\n23/20    1m2s\nok 1\nok 2\nall steps passed")
    assert not promise.keeps("TARGETS AGE\n22.96/30 7s\nall steps passed")
    assert not promise.keeps("TARGETS AGE\n22.96/20 7s\n1 step(s) failed")


def test_help_lists_every_target() -> None:
    listed = re.findall(r"^  make ([a-z-]+) ", make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(targets())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"^(?:.*`)?make ([a-z-]+)", "\n".join(code_spans(text)) + "\n" + text, re.MULTILINE)
    assert set(named) <= set(targets())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"\./ackgpu ([a-z][a-z-]*)", page.read_text())
    assert set(named) <= set(COMMANDS)


def test_all_tests_are_those_of_both_folders() -> None:
    folders = [re.findall(r"pytest (\S+)", make("--dry-run", target)) for target in ("test", "test-unit")]
    assert folders == [["tests/unit", "tests/engine"], ["tests/unit"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_file_that_contributors_are_sent_to_is_there() -> None:
    spans = code_spans((CHECKOUT / "CONTRIBUTING.md").read_text())
    paths = [span for span in spans if re.fullmatch(r"[\w.-]+/[\w./-]*", span)]
    assert len(paths) > 10
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []


def test_every_message_that_the_readme_explains_is_one_that_the_project_says() -> None:
    [section] = re.findall(r"^## When something fails\n(.*?)^## ", README.read_text(), re.DOTALL | re.MULTILINE)
    messages = [span for row in section.splitlines() if row.startswith("| `") for span in code_spans(row.split("|")[1])]
    packages = ("autoscaling", "commands", "components", "live", "program", "rehearsal")
    code = "\n".join(path.read_text() for package in packages for path in (CHECKOUT / package).rglob("*.py"))
    assert messages
    for message in messages:
        pattern = "[^\\n]{0,60}".join(map(re.escape, message.split("...")))
        assert re.search(pattern, code), message
