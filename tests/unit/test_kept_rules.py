"""Rules that an HPA still reads survive the adapter's update, and changed rules are reported."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.rule_drift import drift, fingerprints
from live.kept_rules import KeptRule, insert_kept, rules_to_keep


def rule(name: str, query: str = "q") -> Rule:
    return {"seriesQuery": f"{name}{{}}", "name": {"as": name}, "metricsQuery": query}


def hpa(*metrics: dict[str, Any], name: str = "bert-hpa") -> dict[str, Any]:
    return {"metadata": {"namespace": "demo", "name": name}, "spec": {"metrics": list(metrics)}}


def pods(name: str) -> dict[str, Any]:
    return {"type": "Pods", "pods": {"metric": {"name": name}}}


OLD, NEW, BOTH = rule("old"), rule("new"), rule("both")


@pytest.mark.parametrize(
    "metric",
    [
        pods("old"),
        {"type": "Object", "object": {"metric": {"name": "old"}, "describedObject": {"kind": "Service"}}},
        {"type": "External", "external": {"metric": {"name": "old"}}},
        # autoscaling/v2beta1
        {"type": "Pods", "pods": {"metricName": "old", "targetAverageValue": "20"}},
    ],
)
def test_keeps_a_removed_rule_that_an_hpa_reads(metric: dict[str, Any]) -> None:
    assert rules_to_keep([OLD, BOTH], [hpa(metric)], [NEW, BOTH]) == [KeptRule(OLD, "old", ["demo/bert-hpa"])]


@pytest.mark.parametrize(
    ("live", "hpas"),
    [
        ([OLD], []),
        ([OLD], [hpa(pods("another"))]),
        ([OLD], [hpa({"type": "Resource", "resource": {"name": "old"}})]),
        ([OLD], [{"metadata": {"namespace": "demo", "name": "cpu"}, "spec": {}}]),
        ([], [hpa(pods("old"))]),
        ([rule("both", "another query")], [hpa(pods("both"))]),
        # The exposed names depend on the series.
        ([{"seriesQuery": '{__name__=~"old.*"}'}], [hpa(pods("old"))]),
    ],
)
def test_keeps_no_other_rule(live: list[Rule], hpas: list[dict[str, Any]]) -> None:
    assert rules_to_keep(live, hpas, [NEW, BOTH]) == []


def test_lists_each_reader_once() -> None:
    readers = [hpa(pods("old"), pods("old"), name="a"), hpa(pods("old"), name="b")]
    [kept] = rules_to_keep([OLD], readers, [])
    assert kept.readers == ["demo/a", "demo/b"]


@pytest.mark.parametrize(
    ("live", "new", "expected"),
    [
        ("a old b", "a b", "a old b"),
        ("old a", "a new", "old a new"),
        ("a b old", "a b", "a b old"),
        ("gone old", "new", "old new"),
        ("a old b other", "a b", "a old b other"),
    ],
)
def test_kept_rules_keep_their_position(live: str, new: str, expected: str) -> None:
    live_rules, new_rules = ([rule(name) for name in names.split()] for names in (live, new))
    readers = [hpa(pods("old"), pods("other"))]
    kept = rules_to_keep(live_rules, readers, new_rules)
    assert insert_kept(new_rules, live_rules, kept) == [rule(name) for name in expected.split()]


@pytest.mark.parametrize(
    ("live", "differences"),
    [
        ([OLD, BOTH], []),
        ([BOTH, OLD], []),
        ([OLD], ["the rule for both is missing"]),
        ([OLD, BOTH, NEW], ["the rule for new is not from this stack"]),
        ([OLD, rule("both", "another")], ["the rule for both has changed"]),
        ([OLD, BOTH, BOTH], ["the rule for both exists 2 times"]),
        ([], ["the rule for old is missing", "the rule for both is missing"]),
    ],
)
def test_reports_each_rule_that_differs_from_the_stacks(live: list[Rule], differences: list[str]) -> None:
    assert list(drift(fingerprints([OLD, BOTH]), live)) == differences


def test_reports_a_rule_without_a_name_by_its_selector() -> None:
    nameless: Rule = {"seriesQuery": '{__name__=~"any.*"}'}
    assert list(drift({}, [nameless])) == ['the rule for {__name__=~"any.*"} is not from this stack']
