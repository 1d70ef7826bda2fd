"""What became of rules that an adapter was given, told from their fingerprints, which a stack can export."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name


def fingerprints(rules: Sequence[Rule]) -> dict[str, str]:
    """Twelve hexadecimal digits for each rule, by the name that it exposes, or else by what it selects."""
    return {_name(rule): _fingerprint(rule) for rule in rules}


def drift(given: Mapping[str, str], live: Sequence[Rule]) -> Iterator[str]:
    """A phrase on each rule that is missing, changed, foreign or there twice; none where the two are equal.

    Args:
        given: fingerprints of what the stack gave.
        live: what the adapter has.
    """
    there = fingerprints(live)
    for name, fingerprint in given.items():
        if name not in there:
            yield f"that of {name} is missing"
        elif there[name] != fingerprint:
            yield f"that of {name} is changed"
    names = [_name(rule) for rule in live]
    for name in there:
        if name not in given:
            yield f"that of {name} is foreign"
        elif names.count(name) > 1:
            yield f"that of {name} is there {names.count(name)} times"


def _name(rule: Rule) -> str:
    return exposed_name(rule) or str(rule.get("seriesQuery"))


def _fingerprint(rule: Rule) -> str:
    return hashlib.sha256(json.dumps(rule, sort_keys=True).encode()).hexdigest()[:12]
