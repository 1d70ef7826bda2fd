"""The generated rules: the guide's two lists, and the errors in them that the default preset fixes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaling.metrics.adapter_rules import RULE_PRESETS, RulePreset, RuleSet
from autoscaling.metrics.catalogue import Aggregation, catalogue

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
    """Derive the exposed name as the adapter does: search, then expand."""
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
def test_exposed_metrics_have_the_resources_that_their_rules_map(preset: RulePreset) -> None:
    mapped = {
        exposed_name(rule): {override["resource"] + "s" for override in rule["resources"]["overrides"].values()}
        for rule in RuleSet(preset=preset).rules()
    }
    for metric in RuleSet(preset=preset).exposed:
        assert {f"{resource}s" for resource in metric.resources} == mapped[metric.name]


@pytest.mark.parametrize("rule", RuleSet(preset="hardened").rules(), ids=exposed_name)
def test_a_hardened_rule_aggregates_and_repeats_the_matchers_of_its_series_query(rule: dict[str, Any]) -> None:
    query = rule["metricsQuery"]
    static = rule["seriesQuery"].partition("{")[2].removesuffix("}")
    selectors = re.findall(r"\{(.*?)\}", query)
    assert selectors, query
    for selector in selectors:
        assert selector.startswith("<<.LabelMatchers>>")
        assert static in selector
    assert query.count("by (<<.GroupBy>>)") == len(selectors), "each operand must have a single value per object"
    assert rule["name"]["matches"].startswith("^") and rule["name"]["matches"].endswith("$")


def test_a_hardened_rule_drops_impossible_values_before_it_aggregates() -> None:
    queries = {rule["name"]["as"]: rule["metricsQuery"] for rule in RuleSet(preset="hardened").rules()}
    assert queries["DCGM_CUSTOM_PROCESS_SM_UTIL"] == (
        'avg((<<.Series>>{<<.LabelMatchers>>,NamespaceName!="",PodName!=""} >= 0) <= 100) by (<<.GroupBy>>)'
    )
    for metric in [exposed.metric for exposed in RuleSet().exposed]:
        source = catalogue().get(metric.ratio.numerator) if metric.ratio else metric
        assert f">= {source.range[0]:.0f}) <= {source.range[1]:.0f}) by (<<.GroupBy>>)" in queries[metric.name]
    assert "> 0) <= 1048576)" in queries["DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"], "the denominator too"


def test_the_hardened_ratio_is_in_percent_as_in_the_guides_table() -> None:
    [ratio] = [rule for rule in RuleSet(preset="hardened").rules() if rule["name"]["as"].endswith("_RATIO")]
    assert ratio["metricsQuery"].startswith("100 * ")


@pytest.mark.case("A1")
def test_only_the_labels_of_the_upstream_exporter_are_mapped() -> None:
    uses = frozenset({("DCGM_FI_DEV_GPU_UTIL", None)})
    [rule, _] = RuleSet(labels="upstream-exported", uses=uses).rules()
    assert rule["resources"]["overrides"] == {
        "exported_namespace": {"resource": "namespace"},
        "exported_pod": {"resource": "pod"},
    }
    assert rule["seriesQuery"] == 'DCGM_FI_DEV_GPU_UTIL{exported_namespace!="",exported_pod!=""}'


@pytest.mark.case("A5")
def test_percent_rules_drop_values_outside_the_documented_range() -> None:
    for exposed, rule in zip(RuleSet().exposed, RuleSet().rules(), strict=True):
        if exposed.metric.unit == "%" and not exposed.metric.ratio:
            assert ">= 0) <= 100)" in rule["metricsQuery"]


def test_the_order_of_services_does_not_change_the_rules() -> None:
    uses: list[tuple[str, Aggregation | None]] = [
        ("vllm_num_requests_waiting", None),
        ("DCGM_FI_DEV_ENC_UTIL", "max"),
        ("DCGM_CUSTOM_PROCESS_SM_UTIL", "max"),
    ]
    sets = [RuleSet(uses=frozenset(order)) for order in (uses, uses[::-1])]
    assert sets[0].rules() == sets[1].rules()
    assert [exposed.name for exposed in sets[0].exposed][-1] == "vllm_num_requests_waiting"


def test_a_pod_without_a_process_is_found_by_its_allocated_memory() -> None:
    rules = {rule["name"]["as"]: rule for rule in RuleSet(idle_as_zero=True).rules()}
    rule = rules["DCGM_CUSTOM_PROCESS_SM_UTIL"]
    static = 'NamespaceName!="",PodName!=""'
    assert rule["seriesQuery"] == f"DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{{{static}}}"
    assert rule["metricsQuery"] == (
        f"(avg((DCGM_CUSTOM_PROCESS_SM_UTIL{{<<.LabelMatchers>>,{static}}} >= 0) <= 100) by (<<.GroupBy>>) or "
        f"0 * max(DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{{<<.LabelMatchers>>,{static}}}) by (<<.GroupBy>>))"
    )
    assert rules["DCGM_FI_DEV_GPU_UTIL"] == RuleSet().rules()[0], "an idle card has a value too"


@pytest.mark.case("G11")
def test_the_hash_seed_does_not_change_the_rules() -> None:
    program = (
        "import yaml; from autoscaling.metrics.adapter_rules import RuleSet; "
        "uses = frozenset({('vllm_kv_cache_usage_perc', 'max'), ('DCGM_FI_DEV_ENC_UTIL', None), "
        "('DCGM_CUSTOM_PROCESS_SM_UTIL', 'max'), ('DCGM_CUSTOM_PROCESS_SM_UTIL', 'sum')}); "
        "print(yaml.safe_dump(RuleSet(uses=uses).rules(), sort_keys=False))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=DATA.parents[1],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1
