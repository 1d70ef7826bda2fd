"""Values of the adapter's chart: the program's own and the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Values = Mapping[str, Any]
Path = tuple[str, ...]

_PROMETHEUS: Path = ("AlibabaCloudMetricsAdapter", "prometheus")
RULES: Path = (*_PROMETHEUS, "adapter", "rules", "custom")
RELIST_INTERVAL: Path = (*_PROMETHEUS, "metricsRelistInterval")
STACK: Path = ("global", "ackgpu", "stack")
"""The stack that installed the release. Any chart accepts `global`."""

OWN_PATHS: Mapping[Path, str] = {
    (*_PROMETHEUS, "enabled"): "",
    (*_PROMETHEUS, "url"): "the program reads it from the cluster's Prometheus",
    (*_PROMETHEUS, "prometheusHeader"): "set prometheus.auth",
    (*_PROMETHEUS, "logLevel"): "",
    RELIST_INTERVAL: "set metricsAdapter.relistInterval",
    RULES[:-1]: "set metricsAdapter.rules and extraRules",
    STACK[:-1]: "",
}
"""Values that the program sets or omits on purpose, such as a header, each with what the user can do instead."""

_LOG_LEVEL = 5
"""The guide's."""


def own_values(
    *, stack: str, url: Any, headers: Sequence[Mapping[str, Any]], relist_interval: str, rules: Any
) -> Values:
    """Return the program's values. The chart ignores values at unknown paths without a warning.

    Args:
        stack: name of the stack that installs the release.
        url: address of Prometheus' HTTP API.
        headers: headers of each query; omitted if empty, so that a release without authentication does not change.
        relist_interval: a duration such as 1m.
        rules: rules in the adapter's format.
    """
    outer, inner = _PROMETHEUS
    scope, program, name = STACK
    return {
        scope: {program: {name: stack}},
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
    """Merge two maps of values recursively; the program's own values win."""
    both = {
        key: merged(own[key], further[key])
        for key in own.keys() & further.keys()
        if isinstance(own[key], Mapping) and isinstance(further[key], Mapping)
    }
    return {**further, **own, **both}


def value_at(values: Values, path: Path) -> Any:
    """Return the value at a path, or None."""
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def own_values_in(values: Values) -> Iterator[tuple[Path, str]]:
    """Yield each path of the program that these values set or overwrite, with what the user can do instead."""
    for path, instead in OWN_PATHS.items():
        inner: Any = values
        for key in path:
            inner = inner.get(key) if isinstance(inner, Mapping) else inner
        if inner is not None:
            yield path, instead


def without_own_values(values: Values) -> dict[str, Any]:
    """Remove the values that the program sets itself, and the maps that this leaves empty."""
    return _without(values, list(OWN_PATHS))


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
