"""Rules that a live adapter keeps through an update, because it is updated before the HPAs that read these rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name

_SOURCES = ("pods", "object", "external")
"""Kinds of metric that the adapter serves; the vendor's adapter serves each rule as an external metric too."""


@dataclass(frozen=True)
class KeptRule:
    """A rule that an HPA still needs, although the new settings do not contain the rule."""

    rule: Rule
    metric: str
    """Exposed name."""
    readers: Sequence[str]
    """`<namespace>/<name>` of the HPAs."""


def rules_to_keep(
    live_rules: Iterable[Rule], hpas: Iterable[Mapping[str, Any]], new_rules: Iterable[Rule]
) -> list[KeptRule]:
    """Return the live rules that HPAs need after the adapter's update, until their own update.

    Args:
        live_rules: rules of the live release, in the chart's format.
        hpas: HPAs of all namespaces, in any API version that has metrics.
        new_rules: rules of the release after the update.
    """
    readers: dict[str, list[str]] = defaultdict(list)
    for hpa in hpas:
        for metric in sorted(set(metrics_read(hpa))):
            readers[metric].append(f"{hpa['metadata']['namespace']}/{hpa['metadata']['name']}")
    new_names = {exposed_name(rule) for rule in new_rules}
    return [
        KeptRule(rule, name, readers[name])
        for rule in live_rules
        if (name := exposed_name(rule)) and name in readers and name not in new_names
    ]


def insert_kept(new_rules: Sequence[Rule], live_rules: Sequence[Rule], kept: Iterable[KeptRule]) -> list[Rule]:
    """Insert each kept rule after the live rules that precede it.

    With this order, removing rules that HPAs still read does not change the adapter. Any change restarts it.
    """
    rules = list(new_rules)
    live_names = [exposed_name(rule) for rule in live_rules]
    for kept_rule in kept:
        preceding = set(live_names[: live_names.index(kept_rule.metric)])
        positions = [index for index, rule in enumerate(rules) if exposed_name(rule) in preceding]
        rules.insert(positions[-1] + 1 if positions else 0, kept_rule.rule)
    return rules


def metrics_read(hpa: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each metric that an HPA may read from the adapter, in any API version."""
    for metric in hpa["spec"].get("metrics") or ():
        for source in _SOURCES:
            reference = metric.get(source) or {}
            # v2beta1 has metricName.
            name = (reference.get("metric") or {}).get("name") or reference.get("metricName")
            if name:
                yield name
