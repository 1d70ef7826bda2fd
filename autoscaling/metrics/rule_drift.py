"""Drift of the adapter's live rules, found by fingerprints that a stack can export."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name


def fingerprints(rules: Sequence[Rule]) -> dict[str, str]:
    """Return 12 hexadecimal digits per rule, keyed by its exposed name, or by its `seriesQuery` if it has none."""
    return {_name(rule): _fingerprint(rule) for rule in rules}


def drift(expected: Mapping[str, str], live: Sequence[Rule]) -> Iterator[str]:
    """Yield a phrase for each rule that is missing, changed, foreign or duplicated.

    Args:
        expected: fingerprints of the stack's rules.
        live: the rules that the adapter has.
    """
    found = fingerprints(live)
    for name, fingerprint in expected.items():
        if name not in found:
            yield f"the rule for {name} is missing"
        elif found[name] != fingerprint:
            yield f"the rule for {name} has changed"
    names = [_name(rule) for rule in live]
    for name in found:
        if name not in expected:
            yield f"the rule for {name} is not from this stack"
        elif names.count(name) > 1:
            yield f"the rule for {name} exists {names.count(name)} times"


def _name(rule: Rule) -> str:
    return exposed_name(rule) or str(rule.get("seriesQuery"))


def _fingerprint(rule: Rule) -> str:
    return hashlib.sha256(json.dumps(rule, sort_keys=True).encode()).hexdigest()[:12]
