"""Checks of users' own rules, each alone and together.

prometheus-adapter reads rules in its `pkg/naming` and `pkg/custom-provider`. `tests/data/extra_rules.yaml` has rules of
every kind, each with the real adapter's response.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import promql_parser as promql

from autoscaling.metrics.exposed_name import NameFaultError, derived_name
from autoscaling.metrics.extra_rules import ExtraRule
from autoscaling.metrics.promql import QueryError, is_vector, labels, nodes, parse, regex, selectors, series_name

EXTRA_RULES = "metricsAdapter.extraRules"

_PLACEHOLDERS = ("<<.Series>>", "<<.LabelMatchers>>", "<<.GroupBy>>")
_QUERY_EXAMPLE = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"
_SERIES_EXAMPLE = 'my_series{pod!=""}'
_OBJECTS = "object-1|object-2"
"""Sample of the object names that the adapter puts into a query."""


@dataclass(frozen=True)
class RuleFinding:
    """An error in a rule, or a warning about it."""

    key: str
    """Key within the rule."""
    text: str
    """The rest of the sentence, after the key."""
    severity: Literal["error", "warning"] = "error"


def extra_rule_findings(rules: Sequence[ExtraRule], taken_names: Collection[str]) -> Iterator[RuleFinding]:
    """Check a user's rules.

    Args:
        rules: the user's rules, in their order.
        taken_names: names that the program's own rules expose.

    Yields:
        Findings with the full key, such as `metricsAdapter.extraRules[0].seriesQuery`.
    """
    owners = dict.fromkeys(taken_names, "the program's own rules")
    for index, rule in enumerate(rules):
        key = f"{EXTRA_RULES}[{index}]"
        for finding in _findings(rule):
            yield replace(finding, key=f"{key}.{finding.key}")
        name = _exposed_name(rule)
        if name in owners:
            yield RuleFinding(
                f"{key}.name.as",
                f"gives the metric the name {name}, which is already used by {owners[name]}. If several "
                "rules use the same name, the adapter serves only the last: choose another name",
            )
        elif name:
            owners[name] = key


def _exposed_name(rule: ExtraRule) -> str | None:
    """Return the name of the rule's metric; None if an error in the rule leaves it without a valid name."""
    try:
        return derived_name(rule.name, _series_of(rule))
    except (QueryError, NameFaultError):
        return None


def exposed_metrics(rules: Sequence[ExtraRule]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of object that each exposed metric is available for, by metric name."""
    named = ((_exposed_name(rule), rule.resources.overrides.values()) for rule in rules)
    return {name: tuple(override.kind for override in overrides) for name, overrides in named if name}


def _findings(rule: ExtraRule) -> Iterator[RuleFinding]:
    yield from _resources(rule)
    try:
        series = _series_of(rule)
    except QueryError as error:
        yield RuleFinding("seriesQuery", f"is {rule.series_query!r}: {error}")
        return
    yield from _filters(rule)
    try:
        derived_name(rule.name, series)
    except NameFaultError as error:
        yield RuleFinding(error.key, error.text)
    try:
        yield from _query(rule, series)
    except QueryError as error:
        yield RuleFinding("metricsQuery", f"is {rule.metrics_query!r}: {error}")


def _series_of(rule: ExtraRule) -> str:
    """Return the name of the rule's series.

    Raises:
        QueryError: the rule does not name a series, or Prometheus refuses its selector.
    """
    try:
        selector = parse(rule.series_query)
    except QueryError as error:
        raise QueryError(f"{error}, and the adapter would then list no metrics at all") from None
    if not isinstance(selector, promql.VectorSelector) or selector.offset or selector.at:
        raise QueryError(f"it must be a series selector, such as {_SERIES_EXAMPLE}")
    name = series_name(selector)
    if name is None:
        raise QueryError(f"it must start with the name of a series, as in {_SERIES_EXAMPLE}")
    return name


def _labels_by_kind(rule: ExtraRule) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for label, override in rule.resources.overrides.items():
        kinds[override.kind].append(label)
    return kinds


def _resources(rule: ExtraRule) -> Iterator[RuleFinding]:
    kinds = _labels_by_kind(rule)
    for label in rule.resources.overrides:
        if not _is_label(label):
            yield RuleFinding(
                "resources.overrides",
                f"has {label!r}, which is not a valid label name: use letters, digits and '_', and do not start with a "
                "digit or '__'",
            )
    for kind, names in kinds.items():
        if len(names) > 1:
            yield RuleFinding(
                "resources.overrides",
                f"has {len(names)} labels for {kind} ({', '.join(names)}), and the adapter picks one at random each "
                f"time it starts: keep only the label of the workload's {kind}",
            )
    namespaced = [kind for kind in ("pod", "service") if kind in kinds]
    if namespaced and "namespace" not in kinds:
        yield RuleFinding(
            "resources.overrides",
            f"has no label for the namespace, and the adapter can't find a {namespaced[0]} without its namespace: add "
            "such a label, for example namespace: {resource: namespace}",
        )


def _is_label(name: str) -> bool:
    return re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", name) is not None


def _filters(rule: ExtraRule) -> Iterator[RuleFinding]:
    for index, condition in enumerate(rule.series_filters):
        for pattern in condition.values():
            try:
                regex(pattern)
            except QueryError as error:
                yield RuleFinding(f"seriesFilters[{index}]", f"keeps the adapter from starting: {error}")


def _query(rule: ExtraRule, series: str) -> Iterator[RuleFinding]:
    """Check a query in the form that the adapter sends.

    Raises:
        QueryError: the query cannot work.
    """
    for placeholder in re.findall(r"<<.*?>>|<<|>>", rule.metrics_query, re.DOTALL):
        if placeholder not in _PLACEHOLDERS:
            raise QueryError(f"{placeholder} is not a placeholder: use only {', '.join(_PLACEHOLDERS)}")
    kinds = _labels_by_kind(rule)
    kind = next((candidate for candidate in ("pod", "service", "node") if candidate in kinds), "namespace")
    label = kinds[kind][0]
    if not all(_is_label(name) for name in rule.resources.overrides):
        return
    namespace = [f'{name}="namespace"' for name in kinds["namespace"][:1] if kind != "node"]
    sent = rule.metrics_query
    for placeholder, text in zip(
        _PLACEHOLDERS, (series, ",".join([*namespace, f'{label}=~"{_OBJECTS}"']), label), strict=True
    ):
        sent = sent.replace(placeholder, text)
    expression = parse(sent)
    all_selectors = list(selectors(expression))
    own = [selector for selector in all_selectors if series_name(selector) == series]
    if not own:
        raise QueryError(f"the query does not read {series}: use <<.Series>>, as in {_QUERY_EXAMPLE}")
    if not all(_has_matchers(selector, label) for selector in own):
        raise QueryError(
            f"<<.LabelMatchers>> is missing, so the query reads all {kind}s: add it, as in {_QUERY_EXAMPLE}"
        )
    _check_result(expression, label, kind)
    yield from _warnings(rule, expression, own, kinds, kind)
    for other in all_selectors:
        if not _has_matchers(other, label):
            yield _warning(
                f"reads {series_name(other)} without <<.LabelMatchers>>. If {series_name(other)} has a {kind} label, "
                f"the query also counts {kind}s of the same name in other namespaces: add <<.LabelMatchers>> to "
                f"{series_name(other)}"
            )


def _has_matchers(selector: promql.VectorSelector, label: str) -> bool:
    return any((matcher.name, matcher.value) == (label, _OBJECTS) for matcher in selector.matchers.matchers)


def _check_result(expression: promql.Expr, label: str, kind: str) -> None:
    if not is_vector(expression):
        raise QueryError(f"the result is not a value per {kind}: aggregate the series, as in {_QUERY_EXAMPLE}")
    kept = labels(expression)
    if kept is not None and label in kept:
        return
    for node in nodes(expression):
        if not isinstance(node, promql.AggregateExpr):
            continue
        inner = labels(node.expr)
        if inner is not None and label in inner and label not in (labels(node) or ()):
            operator = f"{node.op}(...)"
            raise QueryError(
                f"{operator} does not group by <<.GroupBy>>, so the result is not a value per {kind}: write {operator} "
                "by (<<.GroupBy>>)"
            )
    raise QueryError(f"the result lacks the label {label}, which names the {kind}: group and match by <<.GroupBy>>")


def _warnings(
    rule: ExtraRule,
    expression: promql.Expr,
    own: Sequence[promql.VectorSelector],
    kinds: Mapping[str, list[str]],
    kind: str,
) -> Iterator[RuleFinding]:
    kept = labels(expression)
    mapped = {*kinds[kind], *kinds["namespace"]}
    if kept is not None and (kept.all_but or kept.names - mapped):
        yield _warning(
            f"keeps extra labels: if a {kind} has several series, such as one per GPU or process, the adapter uses a "
            "random series. Aggregate by (<<.GroupBy>>)"
        )
    selected = next(selectors(parse(rule.series_query))).matchers.matchers
    lost = [
        matcher
        for matcher in selected
        if matcher.name not in (*mapped, "__name__") and not all(_has(matcher, selector) for selector in own)
    ]
    if lost:
        yield _warning(
            f"lacks the matchers {', '.join(map(str, lost))} of seriesQuery. The adapter does not copy them into the "
            "query: add them after <<.LabelMatchers>>"
        )


def _has(matcher: promql.Matcher, selector: promql.VectorSelector) -> bool:
    wanted = (matcher.name, matcher.op, matcher.value)
    return any((matcher.name, matcher.op, matcher.value) == wanted for matcher in selector.matchers.matchers)


def _warning(text: str) -> RuleFinding:
    return RuleFinding("metricsQuery", text, "warning")
