"""What a PromQL query reads, and which labels its result keeps, as far as a parser can tell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import promql_parser as promql
import re2

_EXPERIMENTAL = ("limitk", "limit_ratio")
"""Aggregations that Prometheus has, and does not take unless it is told to."""


_OPERATORS = re.compile(r"[-+*/%^(]|\b(?:and|or|unless)\b")
_MOST_OPERATORS = 100
"""The parser takes minutes for some hundreds, and thousands end the program."""

_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""The one escape that RE2 has and Go's own implementation of it has not."""


class QueryError(Exception):
    """Prometheus refuses the query, or finds nothing by it, ever; the message says why."""


class UnreadableError(QueryError):
    """The query can't be read here, whatever Prometheus makes of it."""


@dataclass(frozen=True)
class Labels:
    """The labels of a result: those named, or all that the series have but those named."""

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
        QueryError: it can't be parsed, or holds what a Prometheus refuses as it is installed.
    """
    if len(_OPERATORS.findall(query)) > _MOST_OPERATORS:
        raise UnreadableError(f"it has more than {_MOST_OPERATORS} operators and parentheses, which are not checked")
    if "`" in query and "\\" in query:
        # Prometheus takes a backslash there as it is, and the parser for the begin of an escape sequence.
        raise UnreadableError('a backslash between backticks is not read here: write "..." and double each backslash')
    try:
        expression: promql.Expr = promql.parse(query)
        for node in nodes(expression):
            _check(node)
        if any(isinstance(node, promql.NumberLiteral) and math.isinf(node.val) for node in nodes(expression)):
            _check_infinity(query)
    except (ValueError, QueryError) as error:
        raise QueryError(f"Prometheus refuses it ({error})") from None
    return expression


def _check_infinity(query: str) -> None:
    """Refuse an infinity that is not written as one."""
    for number in re.findall(r"(?i)\b[0-9][0-9_]*(?:\.[0-9_]*)?e\+?[0-9]+\b", query):
        if math.isinf(float(number)):
            raise QueryError(f"{number} is too large a number")


def _check(node: promql.Expr) -> None:
    """Refuse what the parser takes and Prometheus does not."""
    if isinstance(node, promql.Call) and node.func.experimental:
        raise QueryError(f"{node.func.name} is experimental, and off by default")
    if isinstance(node, promql.AggregateExpr) and str(node.op) in _EXPERIMENTAL:
        raise QueryError(f"{node.op} is experimental, and off by default")
    if isinstance(node, promql.BinaryExpr) and node.modifier:
        fill = node.modifier.fill_values
        if fill.lhs is not None or fill.rhs is not None:
            raise QueryError("fill is experimental, and off by default")
    if isinstance(node, promql.VectorSelector):
        if node.matchers.or_matchers:
            raise QueryError("matchers are joined by a comma, never by or")
        for matcher in node.matchers.matchers:
            if matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe):
                regex(matcher.value)


def regex(pattern: str) -> re2.Pattern:
    """Compile a regular expression in the dialect of Go, in which Prometheus and its adapter are written.

    Raises:
        QueryError: the dialect has no such expression.
    """
    if _SINGLE_BYTE.search(pattern):
        raise QueryError(f"{pattern} is no regular expression (invalid escape sequence: \\C)")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        [reason] = error.args
        text = reason.decode() if isinstance(reason, bytes) else reason
        raise QueryError(f"{pattern} is no regular expression ({text})") from None


def nodes(expression: promql.Expr) -> list[promql.Expr]:
    """Each part of an expression, from the outside in."""
    found: list[promql.Expr] = []
    # The parser takes any answer but False for "go on".
    promql.walk(expression, pre_visit=found.append)
    return found


def selectors(expression: promql.Expr) -> Iterator[promql.VectorSelector]:
    """Each selector of series in an expression."""
    return (node for node in nodes(expression) if isinstance(node, promql.VectorSelector))


def series_name(selector: promql.VectorSelector) -> str | None:
    """The one name that a selector selects, or None.

    Raises:
        QueryError: it selects two names, which no series has.
    """
    names = {
        matcher.value for matcher in selector.matchers.matchers if (matcher.name, matcher.op) == ("__name__", _EQUAL)
    }
    if len(names) > 1:
        raise QueryError(f"no series has the names {' and '.join(sorted(names))} at once")
    return selector.name or next(iter(names), None)


def is_vector(expression: promql.Expr) -> bool:
    """Whether the result is a value for each object, and not one number or the values of some time."""
    if isinstance(expression, promql.ParenExpr):
        return is_vector(expression.expr)
    return labels(expression) is not None and not isinstance(expression, promql.MatrixSelector | promql.SubqueryExpr)


def labels(expression: promql.Expr) -> Labels | None:
    """The labels of the result; None of one number, which has none to match by.

    Raises:
        QueryError: the result is always empty, since an operation's sides never match.
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
    # `topk` leaves its series more labels, which tell nothing apart that these don't.
    kept = inner.only(modifier.labels) if by else inner.without(modifier.labels)
    # That of `count_values` is the label of the counted value.
    return kept.and_also([expression.param.val]) if isinstance(expression.param, promql.StringLiteral) else kept


def _of_operation(expression: promql.BinaryExpr) -> Labels | None:
    left, right, modifier = labels(expression.lhs), labels(expression.rhs), expression.modifier
    if left is None or right is None:
        return left or right
    operator = str(expression.op)
    if operator == "or":
        # A label is kept for certain where both sides keep it.
        return left.only(right.names) if not right.all_but else left.without(right.names)
    matching = modifier.matching if modifier else None
    left_key, right_key = _matched_by(left, matching), _matched_by(right, matching)
    if operator != "unless" and left_key != right_key and not (left_key.all_but and right_key.all_but):
        raise QueryError(f"the sides of {operator} keep different labels, so that none matches the other")
    if operator in ("and", "unless") or modifier is None:
        return left
    included = modifier.group_labels or []
    if modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left.and_also(included)
    if modifier.card == promql.VectorMatchCardinality.OneToMany:
        return right.and_also(included)
    return left_key


def _matched_by(side: Labels, matching: promql.LabelModifier | None) -> Labels:
    """The labels in which the two sides of an operation must agree."""
    if matching is None:
        return side
    on = matching.type == promql.LabelModifierType.Include
    return side.only(matching.labels) if on else side.without(matching.labels)


def _of_call(expression: promql.Call) -> Labels | None:
    name = expression.func.name
    if expression.func.return_type == promql.ValueType.Scalar:
        return None
    # `absent` has labels only where the matchers name one object.
    arguments = [] if name.startswith("absent") else [labels(argument) for argument in expression.args]
    kept = next((kept_labels for kept_labels in arguments if kept_labels is not None), _NO_LABELS)
    if name in ("label_replace", "label_join"):
        return kept.and_also([expression.args[1].val])
    return kept.without(["le"]) if name == "histogram_quantile" else kept
