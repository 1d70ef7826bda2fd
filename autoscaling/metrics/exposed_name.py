"""The name that the adapter gives a series, as `pkg/naming/metric_namer.go` of prometheus-adapter derives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from autoscaling.metrics.extra_rules import RuleName
from autoscaling.metrics.promql import QueryError, regex

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class NameFaultError(Exception):
    """No metric of a usable name would be exposed.

    Attributes:
        key: the faulty key of the rule.
        text: what is wrong with it, and the fix.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.key, self.text = key, text


def derived_name(name: RuleName, series: str) -> str:
    """The name of the metric that is made of a series.

    Raises:
        NameFaultError: there is none, or none that the custom metrics API can serve.
    """
    try:
        # The adapter takes an empty one for none.
        pattern = regex(name.matches or ".*")
    except QueryError as error:
        raise NameFaultError("name.matches", f"can't be used by the adapter, which would not start: {error}") from None
    found = pattern.search(series)
    if found is None:
        raise NameFaultError("name.matches", f"is {name.matches!r}, which is not found in {series}: no metric is made")
    if not name.as_ and pattern.groups > 1:
        references = "_".join(f"${{{number}}}" for number in range(1, pattern.groups + 1))
        raise NameFaultError(
            "name.as", f"is missing, and name.matches has {pattern.groups} groups: say which, such as {references}"
        )
    template = name.as_ or ("${1}" if pattern.groups else "${0}")
    groups = {str(number): found[number] or "" for number in range(pattern.groups + 1)}
    groups |= {group: found[number] or "" for group, number in pattern.groupindex.items()}
    expanded = _REFERENCE.sub(lambda one: groups.get(one[1] or one[2], ""), template)
    for reference in _REFERENCE.finditer(template):
        if (reference[1] or reference[2]) not in groups:
            raise _unknown(reference, template, expanded)
    if not _NAME.fullmatch(expanded):
        suggestion = re.sub(r"[^A-Za-z0-9_]+", "_", series)
        raise NameFaultError(
            "name.as",
            f"would make {expanded!r} of {series}, and a metric's name has letters, digits, '_', '-' and '.': set "
            f"it, such as {suggestion}",
        )
    return expanded


def name_of_rule(rule: Mapping[str, Any]) -> str:
    """The name that a rule as the chart takes it exposes, which begins its `seriesQuery` with its one series.

    Raises:
        NameFaultError: as for `derived_name`.
    """
    return derived_name(RuleName.model_validate(rule.get("name", {})), rule["seriesQuery"].partition("{")[0])


def exposed_name(rule: Mapping[str, Any]) -> str | None:
    """The name under which any rule exposes its series; None where it depends on which series there are."""
    name, series = rule.get("name") or {}, series_name(rule)
    if series is None:
        template = str(name.get("as") or "")
        return template if template and "$" not in template else None
    try:
        return derived_name(RuleName.model_validate(name), series)
    except (NameFaultError, ValidationError):
        return None


def series_name(rule: Mapping[str, Any]) -> str | None:
    """The name of the series that a rule selects, without its labels."""
    found = re.match(r"[a-zA-Z_:][\w:]*", str(rule.get("seriesQuery", "")))
    return found[0] if found else None


def _unknown(reference: re.Match[str], template: str, expanded: str) -> NameFaultError:
    text = f"is {template!r}, where {reference[0]} is not a group of name.matches"
    braced = re.sub(r"\$(\d+)(?=[A-Za-z_])", r"${\1}", template)
    fix = f"write {braced}" if reference[2] and braced != template else "write one that it has, such as ${0}"
    return NameFaultError("name.as", f"{text}, so that the name would be {expanded!r}: {fix}")
