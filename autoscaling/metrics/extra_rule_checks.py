"""What must hold in a user's rule, and between rules.

How prometheus-adapter reads a rule stands in its `pkg/naming` and `pkg/custom-provider`; `tests/data/extra_rules.yaml`
has rules of every kind, with what the real adapter makes of each.
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
"""Stands for the names of the objects that the adapter is asked for."""


@dataclass(frozen=True)
class RuleFinding:
    """An error in a rule, or a warning about it."""

    key: str
    """Within the rule."""
    text: str
    """What is wrong, after the key."""
    severity: Literal["error", "warning"] = "error"


def extra_rule_findings(rules: Sequence[ExtraRule], taken_names: Collection[str]) -> Iterator[RuleFinding]:
    """Check a user's rules.

    Args:
        rules: the user's rules, in their order.
        taken_names: the names that the program's own rules expose.

    Yields:
        Findings with the whole key, such as `metricsAdapter.extraRules[0].seriesQuery`.
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
                f"gives the name {name}, which is also exposed by {owners[name]}; only the last of them works: "
                "choose another",
            )
        elif name:
            owners[name] = key


def _exposed_name(rule: ExtraRule) -> str | None:
    """The name of the metric that the adapter makes of the rule's series; None where the rule has an error there."""
    try:
        return derived_name(rule.name, _series_of(rule))
    except (QueryError, NameFaultError):
        return None


def exposed_metrics(rules: Sequence[ExtraRule]) -> dict[str, tuple[str, ...]]:
    """The metrics that the rules expose: name to kinds of object."""
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
    """The name of the one series that the rule selects.

    Raises:
        QueryError: it selects none, or Prometheus refuses it.
    """
    try:
        selector = parse(rule.series_query)
    except QueryError as error:
        raise QueryError(f"{error}, and the adapter then lists no metric of any rule") from None
    if not isinstance(selector, promql.VectorSelector) or selector.offset or selector.at:
        raise QueryError(f"a series with label matchers is expected, such as {_SERIES_EXAMPLE}")
    name = series_name(selector)
    if name is None:
        raise QueryError(f"one series is expected, by its name, such as {_SERIES_EXAMPLE}")
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
                f"has {label!r}, which no series can have: a label has letters, digits and '_', and starts with no "
                "digit and no '__'",
            )
    for kind, names in kinds.items():
        if len(names) > 1:
            yield RuleFinding(
                "resources.overrides",
                f"has {len(names)} labels for {kind} ({', '.join(names)}), and which one is used changes from start to "
                f"start: keep the one that names the workload's {kind}",
            )
    namespaced = [kind for kind in ("pod", "service") if kind in kinds]
    if namespaced and "namespace" not in kinds:
        yield RuleFinding(
            "resources.overrides",
            f"has no label of the namespace, without which no {namespaced[0]} is found: add it, such as "
            "namespace: {resource: namespace}",
        )


def _is_label(name: str) -> bool:
    return re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", name) is not None


def _filters(rule: ExtraRule) -> Iterator[RuleFinding]:
    for index, condition in enumerate(rule.series_filters):
        for pattern in condition.values():
            try:
                regex(pattern)
            except QueryError as error:
                yield RuleFinding(
                    f"seriesFilters[{index}]", f"can't be used by the adapter, which would not start: {error}"
                )


def _query(rule: ExtraRule, series: str) -> Iterator[RuleFinding]:
    """The faults of a query, read as the adapter sends it.

    Raises:
        QueryError: the query can't be used at all.
    """
    for written in re.findall(r"<<.*?>>|<<|>>", rule.metrics_query, re.DOTALL):
        if written not in _PLACEHOLDERS:
            raise QueryError(f"{written} is not one of the placeholders {', '.join(_PLACEHOLDERS)}")
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
        raise QueryError(f"it does not read {series}: write <<.Series>>, as in {_QUERY_EXAMPLE}")
    if not all(_has_matchers(selector, label) for selector in own):
        raise QueryError(
            f"<<.LabelMatchers>> is missing, so that all {kind}s are read: write it as in {_QUERY_EXAMPLE}"
        )
    _check_result(expression, label, kind)
    yield from _warnings(rule, expression, own, kinds, kind)
    for other in all_selectors:
        if not _has_matchers(other, label):
            yield _warning(
                f"reads {series_name(other)} without <<.LabelMatchers>>: where it has values of single {kind}s, those "
                "of the same name in other namespaces count too"
            )


def _has_matchers(selector: promql.VectorSelector, label: str) -> bool:
    return any((matcher.name, matcher.value) == (label, _OBJECTS) for matcher in selector.matchers.matchers)


def _check_result(expression: promql.Expr, label: str, kind: str) -> None:
    if not is_vector(expression):
        raise QueryError(f"its result is no value for each {kind}: aggregate the series, as in {_QUERY_EXAMPLE}")
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
                f"{operator} leaves no value for each {kind}, since <<.GroupBy>> is missing: write {operator} by "
                "(<<.GroupBy>>)"
            )
    raise QueryError(f"its result has no label {label}, which names the {kind}: group and match by <<.GroupBy>>")


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
            f"keeps further labels of its series, and of several series of one {kind} (its GPUs, its processes) any "
            "one wins: aggregate by (<<.GroupBy>>)"
        )
    selected = next(selectors(parse(rule.series_query))).matchers.matchers
    lost = [
        matcher
        for matcher in selected
        if matcher.name not in (*mapped, "__name__") and not all(_has(matcher, selector) for selector in own)
    ]
    if lost:
        yield _warning(
            f"lacks {', '.join(map(str, lost))} of seriesQuery, which the adapter does not carry over: "
            "repeat it after <<.LabelMatchers>>"
        )


def _has(matcher: promql.Matcher, selector: promql.VectorSelector) -> bool:
    wanted = (matcher.name, matcher.op, matcher.value)
    return any((matcher.name, matcher.op, matcher.value) == wanted for matcher in selector.matchers.matchers)


def _warning(text: str) -> RuleFinding:
    return RuleFinding("metricsQuery", text, "warning")
