"""Rules that an HPA still reads outlast the adapter's update; and what became of rules is told."""

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
def test_a_rule_stays_that_an_hpa_reads_and_the_settings_no_longer_have(metric: dict[str, Any]) -> None:
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
        # Which names it exposes depends on the series.
        ([{"seriesQuery": '{__name__=~"old.*"}'}], [hpa(pods("old"))]),
    ],
)
def test_no_other_rule_stays(live: list[Rule], hpas: list[dict[str, Any]]) -> None:
    assert rules_to_keep(live, hpas, [NEW, BOTH]) == []


def test_each_reader_is_named_once() -> None:
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
def test_kept_rules_have_their_place_so_that_fewer_rules_are_no_change(live: str, new: str, expected: str) -> None:
    live_rules, new_rules = ([rule(name) for name in names.split()] for names in (live, new))
    readers = [hpa(pods("old"), pods("other"))]
    kept = rules_to_keep(live_rules, readers, new_rules)
    assert insert_kept(new_rules, live_rules, kept) == [rule(name) for name in expected.split()]


@pytest.mark.parametrize(
    ("live", "told"),
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
def test_each_rule_that_is_not_as_it_was_given_is_named(live: list[Rule], told: list[str]) -> None:
    assert list(drift(fingerprints([OLD, BOTH]), live)) == told


def test_a_rule_without_a_name_of_its_own_is_named_by_what_it_selects() -> None:
    nameless: Rule = {"seriesQuery": '{__name__=~"any.*"}'}
    assert list(drift({}, [nameless])) == ['the rule for {__name__=~"any.*"} is not from this stack']
