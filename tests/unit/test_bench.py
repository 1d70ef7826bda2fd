"""The pure parts of the bench: pairs and their spread, the table, the settings, and the state that is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoscaling.settings import parse
from bench.adoption import without_components
from bench.pairs import Pairs, Spread, in_turn
from bench.projects import with_services
from bench.table import MILLISECONDS, SECONDS, Comparison, Figure, put_into, rendered, shown
from tests.unit.program import stack_config


def test_a_spread_is_the_middle_and_the_extremes() -> None:
    assert Spread.of([5, 1, 2]) == Spread(2, 1, 5)
    assert Spread.of([4, 1]) == Spread(2.5, 1, 4)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    # The medians' ratio would be 1: the slow spell hit both of the last pair.
    assert Pairs(ours=(2, 2, 30), flat=(1, 2, 10)).ratio == Spread(2, 1, 3)


def test_what_each_further_service_adds() -> None:
    one, eleven = Pairs(ours=(3, 4), flat=(2, 2)), Pairs(ours=(13, 24), flat=(12, 7))
    assert eleven.per_service(one, 10) == Pairs(ours=(1, 2), flat=(1, 0.5))


def test_all_are_measured_in_turn_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    def of(side: str) -> float:
        order.append(side)
        return len(order)

    ours, flat = in_turn([lambda: of("ours"), lambda: of("flat")], 2)
    assert order == ["ours", "flat"] * 3
    assert (ours, flat) == ((3, 5), (4, 6))


def test_a_value_is_shown_in_its_unit_with_its_spread() -> None:
    assert shown(Spread(2.914, 2.8, 3.1), SECONDS) == "2.91 s (2.80..3.10)"
    assert shown(Spread(0.0124, 0.011, 0.02), MILLISECONDS) == "12 ms (11..20)"


def test_the_report_has_a_row_for_each_comparison_and_figure() -> None:
    report = rendered(
        "2 cores",
        [Comparison("preview", "10", Pairs((3, 3, 3), (2, 3, 2)), SECONDS, "at most 1.25")],
        [Figure("rules", Spread(0.01, 0.01, 0.01), MILLISECONDS)],
    )
    assert report.splitlines() == [
        "2 cores",
        "",
        "|  | services | ours | flat | ours / flat | goal |",
        "| --- | --- | --- | --- | --- | --- |",
        "| preview | 10 | 3.00 s (3.00..3.00) | 2.00 s (2.00..3.00) | 1.50 (1.00..1.50) | at most 1.25 |",
        "",
        "|  | ours | goal |",
        "| --- | --- | --- |",
        "| rules | 10 ms (10..10) |  |",
    ]


def test_a_report_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text("before\n<!-- what make bench measured -->\nold\n<!-- the end of it -->\nafter\n")
    put_into(page, "| new |")
    assert page.read_text() == ("before\n<!-- what make bench measured -->\n| new |\n<!-- the end of it -->\nafter\n")


def test_a_page_without_a_place_for_the_report_is_not_changed(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text("no place\n")
    with pytest.raises(ValueError, match=r"bench\.md has no part"):
        put_into(page, "| new |")
    assert page.read_text() == "no place\n"


def test_a_stack_of_many_services_is_one_that_the_program_takes() -> None:
    config = with_services({"config": stack_config("rehearsal"), "encryptionsalt": "v1:"}, 50)["config"]
    settings = parse({key.removeprefix("ackgpu:"): value for key, value in config.items() if "ackgpu:" in key})
    assert len({(service.name, service.autoscaler_name) for service in settings.services}) == 50
    assert settings.services[0].image == yaml.safe_load(yaml.safe_dump(config))["ackgpu:services"][49]["image"]


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
