"""README.md, CONTRIBUTING.md and docs/ are correct; `tests/engine/test_readme.py` runs most of their commands."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from autoscaling.settings import Settings, parse
from commands.command_line import COMMANDS, command_line, run
from commands.docs import reference
from tests.readme import CHECKOUT, PAGES, README, Command, blocks, name_of, section, sections
from tests.unit.program import dev_config

TESTS = CHECKOUT / "tests"


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def targets() -> list[str]:
    """Return the targets of the Makefile, without the former names of commands."""
    groups: list[str] = re.findall(r"^\.PHONY: (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    return groups[0].split()


def code_spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_names_both_commands() -> None:
    assert len(README.read_bytes()) <= 12_288
    assert "make rehearse" in README.read_text()
    assert "make test" in README.read_text()


def test_the_readme_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#:]+)\)", README.read_text()))
    assert {name_of(page) for page in PAGES if page != README} <= linked


def test_each_section_with_commands_is_run_by_one_test() -> None:
    code = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    run_by_tests = re.findall(r'\bsection\("([^"]+)", "([^"]+)"\)(?!\[)', code)
    assert sorted(run_by_tests) == sorted(sections())


@pytest.mark.parametrize("path", reference.documents(), ids=lambda path: path.name)
def test_generated_text_is_up_to_date(path: Path) -> None:
    assert path.read_text() == reference.documents()[path], "run `make docs`"


def test_the_engine_asks_for_no_key_so_that_the_program_reports_all_missing_keys() -> None:
    keys = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["config"]
    assert [key for key, value in keys.items() if "default" not in value] == []
    assert len(keys) == len(Settings.model_fields)


def test_a_setting_is_a_row_with_its_key_its_allowed_values_and_its_default() -> None:
    rows = reference.settings_tables().splitlines()
    assert "| `services[].port` | Port of the load balancer | 1 to 65535 | `80` |" in rows
    assert any(row.startswith("| `gpuNodePool.autoscaling.max` ") and row.endswith("| required |") for row in rows)
    [managed_by] = [row for row in rows if row.startswith("| `prometheus.managedBy` ")]
    assert managed_by.endswith(" | `instance`, `addon`, `existing` | `instance` |")
    assert len([row for row in rows if row.startswith("| `region` ")]) == 1


def test_expected_output_matches_any_measured_number() -> None:
    command = Command("", "TARGETS  AGE\n22.96/20 7s\n...\nall steps passed\n")
    assert command.matches("TARGETS AGE\n23/20    1m2s\nok 1\nok 2\nall steps passed")
    assert not command.matches("TARGETS AGE\n22.96/30 7s\nall steps passed")
    assert not command.matches("TARGETS AGE\n22.96/20 7s\n1 step(s) failed")


def test_help_lists_every_target() -> None:
    listed = re.findall(r"^  make ([a-z-]+) ", make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(targets())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_on_a_page_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"^(?:.*`)?make ([a-z-]+)", "\n".join(code_spans(text)) + "\n" + text, re.MULTILINE)
    assert set(named) <= set(targets())


def ackgpu_lines(page: Path) -> Iterator[str]:
    """Yield the command lines of `./ackgpu` in the text and the code of a page."""
    code = "\n".join(block.body for block in blocks(page) if block.kind == "sh")
    for text in (*code_spans(page.read_text()), *code.splitlines()):
        for match in re.finditer(r"\./ackgpu (--?[a-z]|[a-z])[^#)]*", text):
            yield match[0].strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    for line in ackgpu_lines(page):
        _, name, *options = shlex.split(line)
        if name == "--help":
            continue
        assert name in COMMANDS, line
        command = command_line().commands[name]
        # Files and shells are arguments; a mention of a command may leave them out.
        command.make_context(name, options, resilient_parsing=True)
        known = {
            option for parameter in command.params for option in parameter.opts if isinstance(parameter, click.Option)
        }
        assert {option for option in options if option.startswith("--")} <= known | {"--help"}, line


def test_make_test_runs_both_folders() -> None:
    folders = [re.findall(r"pytest (\S+)", make("--dry-run", target)) for target in ("test", "test-unit")]
    assert folders == [["tests/unit", "tests/engine"], ["tests/unit"]]


def test_contributors_run_the_checks_of_ci() -> None:
    lint, unit, test = section("CONTRIBUTING.md", "Checks")
    assert [command.line for command in (lint, unit, test)] == ["make lint", "make test-unit", "make test"]
    assert "ruff check" in make("--dry-run", "lint")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text())
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_every_file_that_contributing_names_exists() -> None:
    spans = code_spans((CHECKOUT / "CONTRIBUTING.md").read_text())
    paths = [span for span in spans if re.fullmatch(r"[\w.-]+/[\w./-]*", span)]
    assert len(paths) > 10
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []


SETTINGS_BLOCKS = [
    pytest.param(block.body, id=f"{page.name}: {block.heading}")
    for page in PAGES
    for block in blocks(page)
    if block.kind == "yaml"
]


@pytest.mark.parametrize("text", SETTINGS_BLOCKS)
def test_the_program_accepts_every_example_of_settings(text: str) -> None:
    example = yaml.safe_load(text)
    config = example.get("config") or {**dev_config(region="cn-hangzhou"), **example}
    parse({key.removeprefix("ackgpu:"): value for key, value in config.items() if key.startswith("ackgpu:")})


def test_the_program_has_every_message_that_troubleshooting_explains() -> None:
    page = CHECKOUT / "docs" / "troubleshooting.md"
    rows = [row for row in page.read_text().splitlines() if row.startswith("| ") and "`" in row.split("|")[1]]
    messages = [span for row in rows for span in code_spans(row.split("|")[1]) if " " in span]
    packages = ("autoscaling", "commands", "components", "live", "program", "rehearsal")
    code = "\n".join(path.read_text() for package in packages for path in (CHECKOUT / package).rglob("*.py"))
    # A sentence may be split into several literals.
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    # Helm and Pulumi print these.
    theirs = {"another operation (install/upgrade/rollback) is in progress", "pulumi destroy", "pulumi refresh"}
    patterns = {span: "[^\\n]{0,60}".join(map(re.escape, span.split("..."))) for span in set(messages) - theirs}
    assert len(patterns) > 8
    assert [span for span, pattern in patterns.items() if not re.search(pattern, code)] == []


def test_the_check_of_an_exporter_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    [check] = section("docs/metrics.md", "Exporters and their labels")
    assert shlex.split(check.line) == ["./ackgpu", "check-exporter", "metrics.txt"]
    assert run(["check-exporter", str(TESTS / "data" / "dcgm_t4_busy.prom")]) == 1
    output = capsys.readouterr().out
    assert check.matches(output), output


def test_the_check_of_an_empty_stack_file_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    check = next(command for command in sections()["docs/getting-started.md", "Deploy"] if command.expected)
    assert run(shlex.split(check.line)[1:]) != 0
    output = "".join(capsys.readouterr())
    assert check.matches(output), output
