"""Values of the adapter's chart: the program's own, and further ones of the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Values = Mapping[str, Any]
Path = tuple[str, ...]

_PROMETHEUS: Path = ("AlibabaCloudMetricsAdapter", "prometheus")
RULES: Path = (*_PROMETHEUS, "adapter", "rules", "custom")
RELIST_INTERVAL: Path = (*_PROMETHEUS, "metricsRelistInterval")
STACK: Path = ("global", "ackgpu", "stack")
"""Which stack installed the release; Helm hands `global` to any chart."""

OWN: Mapping[Path, str] = {
    (*_PROMETHEUS, "enabled"): "",
    (*_PROMETHEUS, "url"): "it comes from the cluster's Prometheus",
    (*_PROMETHEUS, "prometheusHeader"): "set prometheus.auth",
    (*_PROMETHEUS, "logLevel"): "",
    RELIST_INTERVAL: "set metricsAdapter.relistInterval",
    RULES[:-1]: "set metricsAdapter.rules and extraRules",
    STACK[:-1]: "",
}
"""What the program sets, or leaves out on purpose, as it does a header for an instance that asks for none; and what
the user can do instead."""

_LOG_LEVEL = 5
"""The guide's."""


def own_values(
    *, stack: str, url: Any, headers: Sequence[Mapping[str, Any]], relist_interval: str, rules: Any
) -> Values:
    """What the program sets; the chart ignores a value in another place without a word.

    Args:
        stack: the name of the stack that installs the release.
        url: of Prometheus' HTTP API.
        headers: of each query; none is left out, so that the release of an instance without authentication stays.
        relist_interval: such as 1m.
        rules: as the adapter takes them.
    """
    outer, inner = _PROMETHEUS
    whole, program, name = STACK
    return {
        whole: {program: {name: stack}},
        outer: {
            inner: {
                "enabled": True,
                "url": url,
                **({"prometheusHeader": list(headers)} if headers else {}),
                "logLevel": _LOG_LEVEL,
                "metricsRelistInterval": relist_interval,
                "adapter": {"rules": {"default": False, "custom": rules}},
            }
        },
    }


def merged(own: Values, further: Values) -> dict[str, Any]:
    """Both, map by map; where they meet, the program's own."""
    both = {
        key: merged(own[key], further[key])
        for key in own.keys() & further.keys()
        if isinstance(own[key], Mapping) and isinstance(further[key], Mapping)
    }
    return {**further, **own, **both}


def at(values: Values, path: Path) -> Any:
    """The value at a path; None where there is none."""
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def own_in(values: Values) -> Iterator[tuple[Path, str]]:
    """Yield what of the program's own some values set, or hide behind a scalar, and what to do instead."""
    for path, instead in OWN.items():
        inner: Any = values
        for key in path:
            inner = inner.get(key) if isinstance(inner, Mapping) else inner
        if inner is not None:
            yield path, instead


def foreign(values: Values) -> dict[str, Any]:
    """The values without what the program sets itself, and without maps that are empty then."""
    return _without(values, list(OWN))


def _without(values: Values, paths: Sequence[Path]) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for key, value in values.items():
        inner = [path[1:] for path in paths if path[0] == key]
        if () in inner:
            continue
        if inner and isinstance(value, Mapping):
            value = _without(value, inner)
            if not value:
                continue
        left[key] = value
    return left
