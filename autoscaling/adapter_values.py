"""Values of the adapter's chart: the program's own, and further ones of the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Values = Mapping[str, Any]
Path = tuple[str, ...]

_PROMETHEUS: Path = ("AlibabaCloudMetricsAdapter", "prometheus")
RULES: Path = (*_PROMETHEUS, "adapter", "rules", "custom")
RELIST_INTERVAL: Path = (*_PROMETHEUS, "metricsRelistInterval")
OWN: Sequence[Path] = (
    (*_PROMETHEUS, "enabled"),
    (*_PROMETHEUS, "url"),
    (*_PROMETHEUS, "prometheusHeader"),
    (*_PROMETHEUS, "logLevel"),
    RELIST_INTERVAL,
    (*_PROMETHEUS, "adapter", "rules", "default"),
    RULES,
)
"""What the program sets, or leaves out on purpose, as it does a header for an instance that asks for none."""

_LOG_LEVEL = 5
"""The guide's."""


def own_values(*, url: Any, headers: Sequence[Mapping[str, Any]], relist_interval: str, rules: Sequence[Any]) -> Values:
    """What the program sets; values outside the first key are ignored by the chart without a word.

    Args:
        url: of Prometheus' HTTP API.
        headers: of each query; none is left out, so that the release of an instance without authentication stays.
        relist_interval: such as 1m.
        rules: as the adapter takes them.
    """
    outer, inner = _PROMETHEUS
    return {
        outer: {
            inner: {
                "enabled": True,
                "url": url,
                **({"prometheusHeader": list(headers)} if headers else {}),
                "logLevel": _LOG_LEVEL,
                "metricsRelistInterval": relist_interval,
                "adapter": {"rules": {"default": False, "custom": list(rules)}},
            }
        }
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


def own_in(values: Values) -> Iterator[str]:
    """What of the program's own some values set, or hide behind something that is no map."""
    for path in OWN:
        for length in range(1, len(path) + 1):
            found = at(values, path[:length])
            if found is not None and (length == len(path) or not isinstance(found, Mapping)):
                yield ".".join(path[:length])
                break


def foreign(values: Values) -> dict[str, Any]:
    """The values without what the program sets itself, and without maps that are empty then."""
    return _without(values, OWN)


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
