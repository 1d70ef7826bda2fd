"""Which rules of a live adapter must outlast an update of it: the adapter is updated before the HPAs that read it."""

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
    """A rule that the new settings no longer have, and that an HPA still reads."""

    rule: Rule
    metric: str
    """Under which it is exposed."""
    readers: Sequence[str]
    """`<namespace>/<name>` of the HPAs."""


def rules_to_keep(
    live_rules: Iterable[Rule], hpas: Iterable[Mapping[str, Any]], new_rules: Iterable[Rule]
) -> list[KeptRule]:
    """The live rules without which an HPA would be blind from the adapter's update to its own.

    Args:
        live_rules: of the release as it is, in the chart's form.
        hpas: of the whole cluster, in whichever version of the API that has their metrics.
        new_rules: of the release as it will be.
    """
    readers: dict[str, list[str]] = defaultdict(list)
    for hpa in hpas:
        for metric in sorted(set(metrics_read(hpa))):
            readers[metric].append(f"{hpa['metadata']['namespace']}/{hpa['metadata']['name']}")
    exposed_anew = {exposed_name(rule) for rule in new_rules}
    found = ((rule, exposed_name(rule)) for rule in live_rules)
    return [
        KeptRule(rule, name, readers[name])
        for rule, name in found
        if name is not None and name not in exposed_anew and name in readers
    ]


def with_kept(new_rules: Sequence[Rule], live_rules: Sequence[Rule], kept: Iterable[KeptRule]) -> list[Rule]:
    """The rules of one run, with each kept one behind the live rules that it comes after.

    So an adapter whose rules would only become fewer is left as it is, where any change would restart it.
    """
    rules = list(new_rules)
    live_names = [exposed_name(rule) for rule in live_rules]
    for one in kept:
        before = set(live_names[: live_names.index(one.metric)])
        places = [index for index, rule in enumerate(rules) if exposed_name(rule) in before]
        rules.insert(places[-1] + 1 if places else 0, one.rule)
    return rules


def metrics_read(hpa: Mapping[str, Any]) -> Iterator[str]:
    """The name of each metric that the HPA may read from the adapter, in any version of its API."""
    for metric in hpa["spec"].get("metrics") or ():
        for source in _SOURCES:
            own = metric.get(source) or {}
            # The second as the API up to v2beta1 has it.
            name = (own.get("metric") or {}).get("name") or own.get("metricName")
            if name:
                yield name
