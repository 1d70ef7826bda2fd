"""Names of exposed metrics, derived from rules as in prometheus-adapter's `pkg/naming/metric_namer.go`."""

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
    """The rule does not give its metric a valid name.

    Attributes:
        key: the key of the rule with the error.
        text: the rest of the sentence: the error and the fix.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.key, self.text = key, text


def derived_name(name: RuleName, series: str) -> str:
    """Return the exposed name of a series.

    Raises:
        NameFaultError: the series gets no name, or a name that the custom metrics API cannot serve.
    """
    try:
        # The adapter treats an empty pattern as unset.
        pattern = regex(name.matches or ".*")
    except QueryError as error:
        raise NameFaultError("name.matches", f"keeps the adapter from starting: {error}") from None
    found = pattern.search(series)
    if found is None:
        raise NameFaultError(
            "name.matches",
            f"is {name.matches!r}, which does not match {series}, so the adapter would expose no metric: change "
            "name.matches to match the series",
        )
    if not name.as_ and pattern.groups > 1:
        references = "_".join(f"${{{number}}}" for number in range(1, pattern.groups + 1))
        raise NameFaultError(
            "name.as",
            f"is missing, and name.matches has {pattern.groups} capture groups: set name.as, for example to "
            f"{references}",
        )
    template = name.as_ or ("${1}" if pattern.groups else "${0}")
    groups = {str(number): found[number] or "" for number in range(pattern.groups + 1)}
    groups |= {group: found[number] or "" for group, number in pattern.groupindex.items()}
    expanded = _REFERENCE.sub(lambda reference: groups.get(reference[1] or reference[2], ""), template)
    for reference in _REFERENCE.finditer(template):
        if (reference[1] or reference[2]) not in groups:
            raise _unknown(reference, template, expanded)
    if not _NAME.fullmatch(expanded):
        suggestion = re.sub(r"[^A-Za-z0-9_]+", "_", series)
        raise NameFaultError(
            "name.as",
            f"gives the name {expanded!r}, but a name may have only letters, digits, '_', '-' and '.': change name.as, "
            f"for example to {suggestion}",
        )
    return expanded


def name_of_rule(rule: Mapping[str, Any]) -> str:
    """Return the name that a generated rule exposes; its `seriesQuery` starts with the name of its series.

    Raises:
        NameFaultError: see `derived_name`.
    """
    return derived_name(RuleName.model_validate(rule.get("name", {})), rule["seriesQuery"].partition("{")[0])


def exposed_name(rule: Mapping[str, Any]) -> str | None:
    """Return the name that any rule exposes; None if the name depends on the series in Prometheus."""
    name, series = rule.get("name") or {}, series_name(rule)
    if series is None:
        template = str(name.get("as") or "")
        return template if template and "$" not in template else None
    try:
        return derived_name(RuleName.model_validate(name), series)
    except (NameFaultError, ValidationError):
        return None


def series_name(rule: Mapping[str, Any]) -> str | None:
    """Return the name of the series that a rule selects, without its labels."""
    found = re.match(r"[a-zA-Z_:][\w:]*", str(rule.get("seriesQuery", "")))
    return found[0] if found else None


def _unknown(reference: re.Match[str], template: str, expanded: str) -> NameFaultError:
    text = f"is {template!r}, but {reference[0]} is not a capture group of name.matches"
    braced = re.sub(r"\$(\d+)(?=[A-Za-z_])", r"${\1}", template)
    fix = f"write {braced}" if reference[2] and braced != template else "use an existing group, such as ${0}"
    return NameFaultError("name.as", f"{text}, so the name would be {expanded!r}: {fix}")
