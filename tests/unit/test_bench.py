"""Benchmark parts that need no cloud: figures, settings, states and both programs."""

from __future__ import annotations

import dataclasses
import functools
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import pure_parts
from bench.contender import without_components
from bench.figures import MARK, comparison, in_turn, report, spread, write_into
from bench.projects import flat_config, with_services, write_settings
from tests.unit.program import CHECKOUT, Recorder, run, run_program, stack_config

VALUES = {"ours": [2.0, 2.0, 30.0], "unregistered": [1.0, 2.0, 10.0], "flat": [1.0, 2.0, 10.0]}


def test_measures_in_turn_and_does_not_count_the_first_round() -> None:
    order: list[str] = []

    def measure(side: str) -> float:
        order.append(side)
        return len(order)

    measured = in_turn({side: functools.partial(measure, side) for side in ("ours", "flat")}, 2)
    assert order == ["ours", "flat"] * 3
    assert measured == {"ours": [3, 5], "flat": [4, 6]}


def test_shows_the_median_with_the_lowest_and_the_highest_value() -> None:
    assert spread([2.914, 2.8, 3.1], " s") == "2.91 s (2.80..3.10)"


def test_compares_round_by_round_and_reports_each_goal() -> None:
    # The ratio of the medians would be 1. In the last round, both programs were slow.
    row = comparison("preview", 10, VALUES, {"ours": 1.25, "unregistered": 1.15})
    assert row[5:] == [
        "2.00 (1.00..3.00)",
        "1.00 (1.00..1.00)",
        "ours at most 1.25: missed, unregistered at most 1.15: met",
    ]


def test_a_report_replaces_the_previous_report(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text(f"how to read it\n{MARK}old\n")
    write_into(page, report("2 cores", [comparison("preview", 10, VALUES, {})], {"rules": [0.01]}))
    assert page.read_text().splitlines() == [
        "how to read it",
        MARK.strip(),
        "2 cores",
        "",
        "| command | services | ours | unregistered | flat | ours / flat | unregistered / flat | goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| preview | 10 | 2.00 s (2.00..30.00) | 2.00 s (1.00..10.00) | 2.00 s (1.00..10.00) | 2.00 (1.00..3.00) "
        "| 1.00 (1.00..1.00) |  |",
        "",
        "| part of ours | time |",
        "| --- | --- |",
        "| rules | 10.00 ms (10.00..10.00) |",
    ]


def test_does_not_change_a_page_without_the_mark(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text("no mark\n")
    with pytest.raises(ValueError, match=r"bench\.md does not have"):
        write_into(page, "new")
    assert page.read_text() == "no mark\n"


def test_the_page_of_this_checkout_has_the_mark() -> None:
    assert MARK in (CHECKOUT / "docs" / "bench.md").read_text()


def test_the_program_accepts_the_settings_of_many_services() -> None:
    parts = pure_parts(50, 2)
    assert [len(seconds) for seconds in parts.values()] == [2, 2]


def registered(recorder: Recorder) -> dict[str, dict[str, Any]]:
    """Return the registered resources without components: inputs, options and dependencies."""

    def flat(urn: str) -> str:
        return re.sub(r"(ackgpu:index:\w+|pulumi:pulumi:Stack)\$", "", urn)

    def resource(urn: str) -> bool:
        return "::ackgpu:index:" not in urn and "::pulumi:pulumi:" not in urn

    return {
        flat(registration.urn): {
            **dataclasses.asdict(registration),
            **dict.fromkeys(["urn", "parent", "provider"]),
            "dependencies": {flat(urn) for urn in recorder.comes_after(registration) if resource(flat(urn))},
        }
        for registration in recorder.registrations
        if resource(flat(registration.urn))
    }


def test_both_programs_register_the_same_resources() -> None:
    config = with_services(stack_config("rehearsal"), 2)
    ours = run_program(config, Recorder())
    flat = run(
        Recorder(), functools.partial(runpy.run_path, str(CHECKOUT / "bench/flat/__main__.py")), flat_config(config)
    )
    assert len(flat.registrations) > 10
    assert registered(flat) == registered(ours)


def test_each_project_gets_its_settings(tmp_path: Path) -> None:
    projects = {side: tmp_path / side for side in ("ours", "flat")}
    for folder in projects.values():
        folder.mkdir()
    write_settings(projects, 3)
    assert "name: service-2\n" in (projects["ours"] / "Pulumi.rehearsal.yaml").read_text()
    assert "ackgpu:services: 3\n" in (projects["flat"] / "Pulumi.rehearsal.yaml").read_text()


def test_a_state_without_components_keeps_the_order_of_the_rest() -> None:
    def urn(kind: str) -> str:
        return f"urn:pulumi:rehearsal::ackgpu::{kind}"

    stack = urn("pulumi:pulumi:Stack::ackgpu-rehearsal")
    component = urn("ackgpu:index:InferenceService::a")
    children = urn("ackgpu:index:InferenceService$kubernetes:")
    deployment, service = f"{children}apps/v1:Deployment::a-deployment", f"{children}core/v1:Service::a-service"
    exported = {
        "secrets_providers": {"type": "passphrase"},
        "resources": [
            {"urn": stack, "type": "pulumi:pulumi:Stack"},
            {"urn": component, "type": "ackgpu:index:InferenceService", "parent": stack},
            {"urn": deployment, "type": "kubernetes:apps/v1:Deployment", "parent": component, "id": "default/a"},
            {
                "urn": service,
                "type": "kubernetes:core/v1:Service",
                "parent": component,
                "dependencies": [deployment],
                "propertyDependencies": {"spec": [deployment]},
            },
        ],
    }
    flat_deployment = urn("kubernetes:apps/v1:Deployment::a-deployment")
    assert without_components(exported) == {
        "secrets_providers": {"type": "passphrase"},
        "resources": [
            {"urn": stack, "type": "pulumi:pulumi:Stack"},
            {"urn": flat_deployment, "type": "kubernetes:apps/v1:Deployment", "parent": stack, "id": "default/a"},
            {
                "urn": urn("kubernetes:core/v1:Service::a-service"),
                "type": "kubernetes:core/v1:Service",
                "parent": stack,
                "dependencies": [flat_deployment],
                "propertyDependencies": {"spec": [flat_deployment]},
            },
        ],
    }
