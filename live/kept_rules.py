"""Rules that a live adapter keeps through an update, since the adapter is updated before the HPAs that read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name

_SOURCES = ("pods", "object", "external")
"""Kinds of metric that the adapter serves; the vendor's serves each rule as an external metric too."""


@dataclass(frozen=True)
class KeptRule:
    """A rule that the new settings no longer have and an HPA still reads."""

    rule: Rule
    metric: str
    """The name under which it is exposed."""
    readers: Sequence[str]
    """`<namespace>/<name>` of the HPAs."""


def rules_to_keep(
    live_rules: Iterable[Rule], hpas: Iterable[Mapping[str, Any]], new_rules: Iterable[Rule]
) -> list[KeptRule]:
    """Return the live rules that an HPA needs between the adapter's update and its own.

    Args:
        live_rules: of the release as it is, in the chart's form.
        hpas: of all namespaces, in any version of the API that has their metrics.
        new_rules: of the release as it will be.
    """
    readers: dict[str, list[str]] = defaultdict(list)
    for hpa in hpas:
        for metric in sorted(set(metrics_read(hpa))):
            readers[metric].append(f"{hpa['metadata']['namespace']}/{hpa['metadata']['name']}")
    exposed_anew = {exposed_name(rule) for rule in new_rules}
    return [
        KeptRule(rule, name, readers[name])
        for rule in live_rules
        if (name := exposed_name(rule)) and name in readers and name not in exposed_anew
    ]


def with_kept(new_rules: Sequence[Rule], live_rules: Sequence[Rule], kept: Iterable[KeptRule]) -> list[Rule]:
    """Return the rules of a run, each kept rule behind the live rules that precede it.

    So an adapter that would only lose rules does not change; any change would restart it.
    """
    rules = list(new_rules)
    live_names = [exposed_name(rule) for rule in live_rules]
    for kept_rule in kept:
        before = set(live_names[: live_names.index(kept_rule.metric)])
        places = [index for index, rule in enumerate(rules) if exposed_name(rule) in before]
        rules.insert(places[-1] + 1 if places else 0, kept_rule.rule)
    return rules


def metrics_read(hpa: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each metric that the HPA may read from the adapter, in any version of its API."""
    for metric in hpa["spec"].get("metrics") or ():
        for source in _SOURCES:
            own = metric.get(source) or {}
            # metricName is the form of v2beta1.
            name = (own.get("metric") or {}).get("name") or own.get("metricName")
            if name:
                yield name
