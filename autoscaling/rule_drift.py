"""What became of rules that an adapter was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaling.adapter_rules import Rule
from autoscaling.exposed_name import exposed_name


def drift(given: Sequence[Rule], live: Sequence[Rule]) -> Iterator[str]:
    """A phrase on each rule that is missing, changed or foreign, or on their order; none where the two are equal.

    Args:
        given: as the stack gave them.
        live: as the adapter has them.
    """
    by_name = {_name(rule): rule for rule in live}
    names = [_name(rule) for rule in given]
    for name, rule in zip(names, given, strict=True):
        if name not in by_name:
            yield f"that of {name} is missing"
        elif by_name[name] != rule:
            keys = sorted(key for key in {*rule, *by_name[name]} if rule.get(key) != by_name[name].get(key))
            yield f"that of {name} is changed in {', '.join(keys)}"
    for name in by_name:
        if name not in names:
            yield f"that of {name} is foreign"
    live_names = [_name(rule) for rule in live]
    # Of two that match one series the later counts.
    if sorted(live_names) == sorted(names) and live_names != names:
        yield "they are in another order"
    elif len(live_names) != len(by_name):
        yield "some are there twice"


def _name(rule: Rule) -> str:
    return exposed_name(rule) or str(rule.get("seriesQuery"))
