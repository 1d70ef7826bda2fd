"""Whether the user's values of the adapter's chart leave alone those that the program sets."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaling.chart_values import SET_BY_THE_PROGRAM, taken
from autoscaling.settings.findings import Finding
from autoscaling.settings.model import Settings

_KEY = "metricsAdapter.values"


def adapter_value_findings(settings: Settings) -> Iterator[Finding]:
    """Every value that two would set."""
    for path in taken(settings.metrics_adapter.values):
        instead = SET_BY_THE_PROGRAM[path]
        yield Finding(
            f"{_KEY} sets {path}, which the program sets itself: remove it"
            f"{f', and {instead}' if instead.startswith('set ') else f'; {instead}' if instead else ''}.",
            (_KEY,),
            shows_no_value=True,
        )
