"""Whether the user's values of the adapter's chart leave alone those that the program sets."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaling.metrics.adapter_values import own_in
from autoscaling.settings.findings import Finding
from autoscaling.settings.model import Settings

_KEY = "metricsAdapter.values"


def adapter_value_findings(settings: Settings) -> Iterator[Finding]:
    """Every value that two would set."""
    for path, instead in own_in(settings.metrics_adapter.values):
        yield Finding(
            f"{_KEY} sets {'.'.join(path)}, which the program sets itself: remove it"
            f"{f', and {instead}' if instead.startswith('set ') else f'; {instead}' if instead else ''}.",
            (_KEY,),
            shows_no_value=True,
        )
