"""The generated rules against the guide's two lists, and the faults that the default preset mends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaling.adapter_rules import RULE_PRESETS, RulePreset, RuleSet
from autoscaling.gpu_metrics import catalogue

DATA = Path(__file__).parent.parent / "data"


def test_seed_is_the_guides_list() -> None:
    assert RuleSet(preset="seed").rules() == yaml.safe_load((DATA / "seed_rules_default.yaml").read_text())


def test_seed_complete_is_the_guides_complete_configuration() -> None:
    complete = yaml.safe_load((DATA / "seed_rules_complete.yaml").read_text())
    assert RuleSet(preset="seed-complete").rules() == complete["adapter"]["rules"]["custom"]


@pytest.mark.parametrize("preset", RULE_PRESETS)
def test_rules_survive_yaml_byte_for_byte(preset: RulePreset) -> None:
    assert yaml.safe_load(yaml.safe_dump(RuleSet(preset=preset).rules())) == RuleSet(preset=preset).rules()


def exposed_name(rule: dict[str, Any]) -> str:
    """The name as the adapter derives it from `name` (a search, then an expansion)."""
    series = rule["seriesQuery"].partition("{")[0]
    name = rule.get("name")
    if name is None:
        return str(series)
    match = re.search(name["matches"], series)
    assert match, rule
    return match.expand(re.sub(r"\$\{(\d+)\}", r"\\g<\1>", name["as"]))


@pytest.mark.parametrize("preset", RULE_PRESETS)
def test_each_metric_of_the_guides_table_is_exposed(preset: RulePreset) -> None:
    names = {exposed_name(rule) for rule in RuleSet(preset=preset).rules()}
    assert names >= {
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_CUSTOM_PROCESS_SM_UTIL",
        "DCGM_CUSTOM_PROCESS_MEM_USED",
        "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO",
    }


@pytest.mark.parametrize("preset", RULE_PRESETS)
def test_what_is_said_to_be_exposed_is_what_the_rules_map(preset: RulePreset) -> None:
    mapped = {
        exposed_name(rule): {override["resource"] + "s" for override in rule["resources"]["overrides"].values()}
        for rule in RuleSet(preset=preset).rules()
    }
    for metric in RuleSet(preset=preset).exposed:
        assert {f"{resource}s" for resource in metric.resources} == mapped[metric.name]


@pytest.mark.parametrize("rule", RuleSet(preset="hardened").rules(), ids=exposed_name)
def test_a_hardened_rule_aggregates_and_repeats_what_its_series_query_selects(rule: dict[str, Any]) -> None:
    query = rule["metricsQuery"]
    static = rule["seriesQuery"].partition("{")[2].removesuffix("}")
    selectors = re.findall(r"\{(.*?)\}", query)
    assert selectors, query
    for selector in selectors:
        assert selector.startswith("<<.LabelMatchers>>")
        assert static in selector
    assert query.count("by (<<.GroupBy>>)") == len(selectors), "each operand is one value for each object"
    assert rule["name"]["matches"].startswith("^") and rule["name"]["matches"].endswith("$")


def test_a_hardened_rule_drops_what_no_gpu_can_have_before_it_aggregates() -> None:
    queries = {rule["name"]["as"]: rule["metricsQuery"] for rule in RuleSet(preset="hardened").rules()}
    assert queries["DCGM_CUSTOM_PROCESS_SM_UTIL"] == (
        'avg((<<.Series>>{<<.LabelMatchers>>,NamespaceName!="",PodName!=""} >= 0) <= 100) by (<<.GroupBy>>)'
    )
    for metric in [one.metric for one in RuleSet().exposed]:
        source = catalogue().get(metric.ratio.numerator) if metric.ratio else metric
        assert f">= {source.range[0]:.0f}) <= {source.range[1]:.0f}) by (<<.GroupBy>>)" in queries[metric.name]
    assert "> 0) <= 1048576)" in queries["DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"], "the denominator too"


def test_the_hardened_ratio_is_in_percent_as_the_guides_table_says() -> None:
    [ratio] = [rule for rule in RuleSet(preset="hardened").rules() if rule["name"]["as"].endswith("_RATIO")]
    assert ratio["metricsQuery"].startswith("100 * ")
