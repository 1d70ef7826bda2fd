"""Static analysis of PromQL queries: the series that they read and the labels that their results keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import promql_parser as promql
import re2

_EXPERIMENTAL = ("limitk", "limit_ratio")
"""Aggregations that Prometheus turns off by default."""


class QueryError(Exception):
    """Prometheus refuses the query, or its result is always empty; the message gives the reason."""


@dataclass(frozen=True)
class Labels:
    """The labels of a result: `names`, or with `all_but` every label of the series except `names`."""

    names: frozenset[str] = frozenset()
    all_but: bool = True

    def __contains__(self, label: str) -> bool:
        return (label in self.names) != self.all_but

    def only(self, names: Iterable[str]) -> Labels:
        return Labels(frozenset(name for name in names if name in self), all_but=False)

    def without(self, names: Iterable[str]) -> Labels:
        return Labels(self.names | set(names)) if self.all_but else Labels(self.names - set(names), all_but=False)

    def and_also(self, names: Iterable[str]) -> Labels:
        return Labels(self.names - set(names)) if self.all_but else Labels(self.names | set(names), all_but=False)


_NO_LABELS = Labels(all_but=False)
_EQUAL = promql.MatchOp.Equal


def parse(query: str) -> promql.Expr:
    """Parse a query as Prometheus does.

    Raises:
        QueryError: Prometheus refuses the query.
    """
    # Between backticks, the parser reads a backslash as an escape; Prometheus does not.
    quoted = re.sub("`([^`]*)`", lambda text: json.dumps(text[1], ensure_ascii=False), query)
    try:
        expression: promql.Expr = promql.parse(quoted)
        for node in nodes(expression):
            _check(node)
    except (ValueError, QueryError) as error:
        raise QueryError(f"Prometheus refuses the query ({error})") from None
    return expression


def _check(node: promql.Expr) -> None:
    """Refuse constructs that the parser accepts but Prometheus refuses."""
    if isinstance(node, promql.Call) and node.func.experimental:
        raise QueryError(f"{node.func.name} is experimental and off by default")
    if isinstance(node, promql.AggregateExpr) and str(node.op) in _EXPERIMENTAL:
        raise QueryError(f"{node.op} is experimental and off by default")
    if isinstance(node, promql.VectorSelector):
        if node.matchers.or_matchers:
            raise QueryError("join matchers with a comma, not with or")
        for matcher in node.matchers.matchers:
            if matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe):
                regex(matcher.value)


def regex(pattern: str) -> re2.Pattern:
    """Compile a regular expression with Go's syntax, as the adapter does.

    Raises:
        QueryError: the pattern is not valid in Go.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        [reason] = error.args
        text = reason.decode() if isinstance(reason, bytes) else reason
        raise QueryError(f"{pattern} is not a regular expression in Go's syntax ({text})") from None


def nodes(expression: promql.Expr) -> list[promql.Expr]:
    """Return all nodes of an expression, outermost first."""
    found: list[promql.Expr] = []
    # The walk stops only at False; append returns None.
    promql.walk(expression, pre_visit=found.append)
    return found


def selectors(expression: promql.Expr) -> Iterator[promql.VectorSelector]:
    """Yield the series selectors of an expression."""
    return (node for node in nodes(expression) if isinstance(node, promql.VectorSelector))


def series_name(selector: promql.VectorSelector) -> str | None:
    """Return the series name that a selector fixes, or None."""
    names = (
        matcher.value for matcher in selector.matchers.matchers if matcher.name == "__name__" and matcher.op == _EQUAL
    )
    return selector.name or next(names, None)


def is_vector(expression: promql.Expr) -> bool:
    """Return whether the result is an instant vector, not a scalar or a range of values."""
    if isinstance(expression, promql.ParenExpr):
        return is_vector(expression.expr)
    return labels(expression) is not None and not isinstance(expression, promql.MatrixSelector | promql.SubqueryExpr)


def labels(expression: promql.Expr) -> Labels | None:
    """Return the labels of the result; None for a scalar.

    Raises:
        QueryError: the result is always empty, because the two sides of an operation never match.
    """
    match expression:
        case promql.VectorSelector() | promql.MatrixSelector():
            return Labels()
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return labels(expression.expr)
        case promql.AggregateExpr():
            return _of_aggregation(expression)
        case promql.BinaryExpr():
            return _of_operation(expression)
        case promql.Call():
            return _of_call(expression)
    return None


def _of_aggregation(expression: promql.AggregateExpr) -> Labels:
    inner, modifier = labels(expression.expr) or _NO_LABELS, expression.modifier
    if modifier is None:
        return _NO_LABELS
    by = modifier.type == promql.AggModifierType.By
    # `topk` keeps extra labels; they never distinguish series here.
    kept = inner.only(modifier.labels) if by else inner.without(modifier.labels)
    # The parameter of `count_values` is the label of the counted value.
    return kept.and_also([expression.param.val]) if isinstance(expression.param, promql.StringLiteral) else kept


def _of_operation(expression: promql.BinaryExpr) -> Labels | None:
    left, right, modifier = labels(expression.lhs), labels(expression.rhs), expression.modifier
    if left is None or right is None:
        return left or right
    operator = str(expression.op)
    if operator == "or":
        # Only labels that both sides keep are certain.
        return left.only(right.names) if not right.all_but else left.without(right.names)
    matching = modifier.matching if modifier else None
    left_key, right_key = _matched_by(left, matching), _matched_by(right, matching)
    if operator != "unless" and left_key != right_key and not (left_key.all_but and right_key.all_but):
        raise QueryError(
            f"the two sides of {operator} have different labels, so they never match: aggregate both by the same labels"
        )
    if operator in ("and", "unless") or modifier is None:
        return left
    included = modifier.group_labels or []
    if modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left.and_also(included)
    if modifier.card == promql.VectorMatchCardinality.OneToMany:
        return right.and_also(included)
    return left_key


def _matched_by(side: Labels, matching: promql.LabelModifier | None) -> Labels:
    """Return the labels that must be equal on both sides of an operation."""
    if matching is None:
        return side
    on = matching.type == promql.LabelModifierType.Include
    return side.only(matching.labels) if on else side.without(matching.labels)


def _of_call(expression: promql.Call) -> Labels | None:
    name = expression.func.name
    if expression.func.return_type == promql.ValueType.Scalar:
        return None
    # `absent` has only the labels that its matchers fix to a value.
    arguments = [] if name.startswith("absent") else [labels(argument) for argument in expression.args]
    kept = next((kept_labels for kept_labels in arguments if kept_labels is not None), _NO_LABELS)
    if name in ("label_replace", "label_join"):
        return kept.and_also([expression.args[1].val])
    return kept.without(["le"]) if name == "histogram_quantile" else kept
