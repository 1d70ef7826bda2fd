"""Users' rules for the adapter: each error is a single sentence, reported before the adapter runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaling.metrics.extra_rule_checks import exposed_metrics
from autoscaling.metrics.promql import Labels, QueryError, labels, parse
from autoscaling.settings import parse as parse_settings
from autoscaling.settings import warnings
from tests.readme import yaml_block
from tests.unit.program import Recorder, run_program, stack_config
from tests.unit.test_settings import GOOD, faults

SETS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "extra_rules.yaml").read_text())[
    "sets"
]
ACCEPTED = [rule_set for rule_set in SETS if "says" not in rule_set]
REFUSED = [rule_set for rule_set in SETS if "says" in rule_set]


def config(rules: list[dict[str, Any]], **metric: Any) -> dict[str, Any]:
    config = {**GOOD, "metricsAdapter": {"extraRules": rules}}
    if metric:
        autoscaler = {**GOOD["services"][0]["autoscaler"], "metrics": [{"target": 20, **metric}]}
        config["services"] = [{**GOOD["services"][0], "autoscaler": autoscaler}]
    return config


def parameters(sets: list[dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(
            rule_set, id=rule_set["id"], marks=[pytest.mark.case(rule_set["case"])] if "case" in rule_set else []
        )
        for rule_set in sets
    ]


@pytest.mark.parametrize("rule_set", parameters(REFUSED))
def test_refuses_a_rule_that_cannot_work_with_a_single_sentence(rule_set: dict[str, Any]) -> None:
    assert faults(config(rule_set["rules"])) == rule_set["says"]


@pytest.mark.parametrize("rule_set", parameters(ACCEPTED))
def test_accepts_a_rule_that_works_and_warns_about_likely_mistakes(rule_set: dict[str, Any]) -> None:
    assert list(warnings(parse_settings(config(rule_set["rules"])))) == rule_set.get("warns", [])


@pytest.mark.parametrize("rule_set", parameters(ACCEPTED))
def test_exposed_names_are_those_in_the_real_adapters_list(rule_set: dict[str, Any]) -> None:
    rules = parse_settings(config(rule_set["rules"])).metrics_adapter.extra_rules
    adapter = rule_set["adapter"]
    absent = {"encoding"} if rule_set["id"] == "a series that does not exist" else set()
    assert set(exposed_metrics(rules)) == adapter["lists"].keys() | adapter.get("lists_of_nodes", {}).keys() | absent


def test_rules_reach_the_release_unchanged_after_the_programs_own() -> None:
    program = stack_config("rehearsal")
    before = run_program(program, Recorder()).secret_values
    extra = [rule for rule_set in ACCEPTED[:8] for rule in rule_set["rules"] if rule["name"]["as"] != "gpu_util"]
    adapter = {**program["ackgpu:metricsAdapter"], "extraRules": extra}
    recorder = run_program({**program, "ackgpu:metricsAdapter": adapter}, Recorder())
    own, custom = (
        values["AlibabaCloudMetricsAdapter"]["prometheus"]["adapter"]["rules"]["custom"]
        for values in (before, recorder.secret_values)
    )
    assert custom == [*own, *extra]
    assert "gpu_${1}_avg" in [rule["name"]["as"] for rule in custom]
    assert "pods/gpu_PROCESS_SM_UTIL_avg" in recorder.outputs["metricResources"]


RULE = {
    "seriesQuery": 'queue_length{pod!=""}',
    "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
    "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}


def test_the_example_in_the_docs_works() -> None:
    adapter = yaml.safe_load(yaml_block("docs/metrics.md", "extraRules"))["ackgpu:metricsAdapter"]
    settings = parse_settings({**GOOD, "metricsAdapter": adapter})
    assert list(exposed_metrics(settings.metrics_adapter.extra_rules)) == ["queue_length_max"]
    assert not warnings(settings)


def test_an_hpa_can_use_the_metric_of_a_rule_with_an_unknown_range() -> None:
    [service] = parse_settings(config([RULE], name="queue_length", target=1_000_000)).services
    assert service.autoscaler.metrics[0].exposed_name == "queue_length"


def test_suggests_the_similar_name_of_a_rule_to_an_hpa() -> None:
    assert faults(config([RULE], name="queue_lenght")) == [
        "services[0].autoscaler.metrics[0].name is 'queue_lenght', which no rule exposes: did you mean queue_length?"
    ]


def test_an_hpa_cannot_use_the_metric_of_a_rule_without_pods() -> None:
    node_rule = {**RULE, "resources": {"overrides": {"node": {"resource": "node"}}}}
    [fault] = faults(config([node_rule], name="queue_length"))
    assert fault.startswith(
        "services[0].autoscaler.metrics[0].name is 'queue_length', which metricsAdapter.extraRules exposes for node "
        "only, but an HPA reads metrics of pods"
    )


def test_refuses_an_aggregation_for_the_metric_of_a_rule() -> None:
    assert faults(config([RULE], name="queue_length", aggregation="max")) == [
        "services[0].autoscaler.metrics[0].aggregation is 'max', but queue_length comes from "
        "metricsAdapter.extraRules, whose query already aggregates: remove aggregation."
    ]


@pytest.mark.case("B3")
def test_reports_a_truncated_name_together_with_the_hpa_that_uses_the_full_name() -> None:
    rule = {
        **RULE,
        "seriesQuery": "DCGM_CUSTOM_PROCESS_SM_UTIL",
        "name": {"matches": "DCGM_CUSTOM_(.*)", "as": "gpu_$1_avg"},
    }
    message = " ".join(faults(config([rule], name="gpu_PROCESS_SM_UTIL_avg")))
    assert "write gpu_${1}_avg" in message and "the name would be 'gpu_'" in message
    rule["name"] = {"matches": "DCGM_CUSTOM_(.*)", "as": "gpu_${1}_avg"}
    assert parse_settings(config([rule], name="gpu_PROCESS_SM_UTIL_avg"))


def test_reports_the_errors_of_several_rules_together() -> None:
    wrong = {**RULE, "metricsQuery": "sum(<<.Series>>)", "resources": {"overrides": {"pod": {"resource": "pod"}}}}
    keys = [fault.split(" ")[0] for fault in faults(config([wrong, {**RULE, "name": {"as": "a:b"}}]))]
    assert keys == [
        "metricsAdapter.extraRules[0].resources.overrides",
        "metricsAdapter.extraRules[0].metricsQuery",
        "metricsAdapter.extraRules[1].name.as",
    ]


@pytest.mark.parametrize("nonsense", [True, -1, 1.5, "", "?", [], [[]], {}, {"?": 1}, 10**30, None])
@pytest.mark.parametrize(
    "path", [("seriesQuery",), ("resources",), ("resources", "overrides"), ("resources", "overrides", "pod"),
             ("resources", "overrides", "pod", "resource"), ("name",), ("name", "as"), ("name", "matches"),
             ("metricsQuery",), ("seriesFilters",), ("seriesFilters", 0)],
)  # fmt: skip
def test_reports_nonsense_in_a_rule_with_its_key(path: Any, nonsense: Any) -> None:
    rule = yaml.safe_load(yaml.safe_dump({**RULE, "name": {"as": "a", "matches": ".*"}, "seriesFilters": [{"is": ""}]}))
    rule["seriesFilters"][0]["is"] = "queue"
    target: Any = rule
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = nonsense
    harmless: tuple[tuple[Any, Any], ...] = (
        (("name", "as"), ""),
        (("name", "matches"), ""),
        (("seriesFilters",), []),
        (("name",), {}),
    )
    if (path, nonsense) in harmless:
        parse_settings(config([rule]))
        return
    sentences = faults(config([rule]))
    assert all(sentence.startswith("metricsAdapter.extraRules[0]") for sentence in sentences)
    assert not [word for word in ("Input", "valid", "pydantic", "instance") if word in " ".join(sentences)], sentences


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("a", Labels()),
        ("a offset 5m", Labels()),
        ("sum(a) by (x, y)", Labels(frozenset({"x", "y"}), all_but=False)),
        ("sum(a) without (x)", Labels(frozenset({"x"}))),
        ("max(sum(a) by (x, y)) by (y, z)", Labels(frozenset({"y"}), all_but=False)),
        ("a and on (x) sum(b) by (x)", Labels()),
        ("a * on (x) sum(b) by (x)", Labels(frozenset({"x"}), all_but=False)),
        ("a * ignoring (x) b", Labels(frozenset({"x"}))),
        ("a * on (x) group_left (z) sum(b) by (x, z)", Labels()),
        ("sum(b) by (x) * on (x) group_right () a", Labels()),
        ("sum(a) by (x, y) or sum(b) by (y)", Labels(frozenset({"y"}), all_but=False)),
        ("a unless sum(b)", Labels()),
        ("2 * sum(a) by (x)", Labels(frozenset({"x"}), all_but=False)),
        ("histogram_quantile(0.5, sum(a) by (x, le))", Labels(frozenset({"x"}), all_but=False)),
        ('label_replace(sum(a) by (x), "y", "", "", "")', Labels(frozenset({"x", "y"}), all_but=False)),
        ('count_values("v", a) by (x)', Labels(frozenset({"x", "v"}), all_but=False)),
        ("max_over_time(sum(a) by (x)[5m:])", Labels(frozenset({"x"}), all_but=False)),
        ("vector(1)", Labels(all_but=False)),
        ("scalar(a)", None),
        ("1 + 1", None),
        ("time()", None),
    ],
)
def test_a_result_has_the_labels_that_prometheus_keeps(query: str, kept: Labels | None) -> None:
    assert labels(parse(query)) == kept


@pytest.mark.parametrize("query", ["sum(a) by (x) / sum(b)", "a / sum(b) by (x)", "sum(a) / on (x) b"])
def test_refuses_an_operation_with_sides_that_never_match(query: str) -> None:
    with pytest.raises(QueryError, match="never match"):
        labels(parse(query))
