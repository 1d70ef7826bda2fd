"""Values of the adapter's chart: the user's own beside those that the program sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SET_BY_THE_PROGRAM: Mapping[str, str] = {
    "AlibabaCloudMetricsAdapter.prometheus.enabled": "",
    "AlibabaCloudMetricsAdapter.prometheus.url": "it comes from the cluster's Prometheus",
    "AlibabaCloudMetricsAdapter.prometheus.prometheusHeader": "set prometheus.auth",
    "AlibabaCloudMetricsAdapter.prometheus.logLevel": "",
    "AlibabaCloudMetricsAdapter.prometheus.metricsRelistInterval": "set metricsAdapter.relistInterval",
    "AlibabaCloudMetricsAdapter.prometheus.adapter.rules": "set metricsAdapter.rules and extraRules",
    "global.ackgpu": "",
}
"""Values that the program sets, with all that is in them, and what the user can do instead."""


def merged(own: Mapping[str, Any], of_the_program: Mapping[str, Any]) -> dict[str, Any]:
    """The user's values under the program's: a map is merged, and of anything else the program's counts."""
    both = {
        key: merged(own[key], value) if isinstance(own.get(key), Mapping) and isinstance(value, Mapping) else value
        for key, value in of_the_program.items()
    }
    return {**own, **both}


def taken(own: Mapping[str, Any]) -> Iterator[str]:
    """Each of the program's own values that the user's set, or take the place of."""
    for path in SET_BY_THE_PROGRAM:
        value: Any = own
        for key in path.split("."):
            if not isinstance(value, Mapping):
                yield path
                break
            if key not in value:
                break
            value = value[key]
        else:
            yield path
