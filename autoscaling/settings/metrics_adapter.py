"""The metrics adapter: its settings, and the checks on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from autoscaling.ack.versions import ADAPTER_CHART
from autoscaling.metrics.adapter_rules import RulePreset
from autoscaling.metrics.adapter_values import own_values_in
from autoscaling.metrics.catalogue import LabelPreset, catalogue
from autoscaling.metrics.exposed_name import name_of_rule
from autoscaling.metrics.extra_rule_checks import exposed_metrics, extra_rule_findings
from autoscaling.metrics.extra_rules import ExtraRule
from autoscaling.settings.autoscaler_metrics import MetricUse, why_unusable
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Duration, Model, Text
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_RULES = "metricsAdapter.rules"
_LABELS = "metricsAdapter.labels"

_MAX_AGE_SECONDS = 20 * 60
"""The adapter forgets series older than this. The chart cannot change it, and the adapter does not start with a longer
relist interval."""

_RELIST_INTERVAL = Duration(
    "must be a duration from 1s to 20m, such as 30s or 1m, because the adapter forgets series after 20m",
    1,
    _MAX_AGE_SECONDS,
)


class MetricsAdapter(Model):
    """Settings of the metrics adapter's Helm release."""

    chart: Text = ADAPTER_CHART
    """URL of a chart, or a path relative to the project."""
    rules: RulePreset = "hardened"
    """Rules of the adapter: the guide's rules with their errors fixed (`hardened`), or the guide's own two lists."""
    labels: LabelPreset = "ack"
    """Labels of the GPU exporter: those of ACK's exporter (`ack`), or those of NVIDIA's dcgm-exporter, unchanged
    (`upstream`) or with the prefix `exported_` that Prometheus adds (`upstream-exported`)."""
    extra_rules: list[ExtraRule] = []
    """Your own rules, added after the program's rules; see docs/metrics.md."""
    idle_as_zero: bool = False
    """Read 0 for a pod whose GPU runs no process. By default the HPA has no value for such a pod."""
    relist_interval: Annotated[str, _RELIST_INTERVAL] = "1m"
    """How often the adapter looks for new series, such as 1m; at most 20m."""
    expose: list[MetricUse] = []
    """Metrics for services of other stacks, in addition to those of this stack's services."""
    values: dict[str, Any] = {}
    """Further values of the chart, such as `{AlibabaCloudMetricsAdapter: {nodeSelector: {...}}}`."""
    adopted: bool = False
    """Whether the release existed before the stack; `./ackgpu adopt` sets this to true. The release stays when the
    stack is destroyed."""
    retain_on_delete: bool = False
    """Keep the release when the stack is destroyed."""


def adapter_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of the adapter."""
    adapter = settings.metrics_adapter
    for sentence in (*_presets(adapter), *_chart_values(adapter)):
        yield Finding(sentence, ("metricsAdapter",))
    for position, use in enumerate(adapter.expose):
        if problem := _exposed(use, f"metricsAdapter.expose[{position}]", settings):
            yield Finding(problem, ("metricsAdapter", "gpuNodePool"))
    own = [name_of_rule(rule) for rule in settings.rule_set.rules()]
    for finding in extra_rule_findings(adapter.extra_rules, own):
        yield Finding(f"{finding.key} {finding.text}.", ("metricsAdapter",), finding.severity)


def _presets(adapter: MetricsAdapter) -> Iterator[str]:
    if adapter.rules != "hardened" and adapter.labels != "ack":
        yield (
            f"{_LABELS} is {adapter.labels!r}, but with {_RULES} set to {adapter.rules}, the rules read ACK's labels: "
            f"set {_RULES} to hardened."
        )
    if adapter.idle_as_zero and (adapter.rules != "hardened" or adapter.labels != "ack"):
        yield (
            f"metricsAdapter.idleAsZero needs {_RULES} set to hardened and {_LABELS} set to ack, because it reads the "
            "series DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED of ACK's exporter: remove idleAsZero."
        )


def _exposed(use: MetricUse, key: str, settings: Settings) -> str | None:
    metric = catalogue().find(use.name)
    if metric:
        return why_unusable(use, metric, key, settings)
    if use.name in exposed_metrics(settings.metrics_adapter.extra_rules):
        return None
    return (
        f"{key}.name is {use.name!r}, which no rule exposes: "
        f"{nearest(use.name, [metric.name for metric in catalogue().metrics])}"
    )


def _chart_values(adapter: MetricsAdapter) -> Iterator[str]:
    for path, instead in own_values_in(adapter.values):
        yield (
            f"metricsAdapter.values sets {'.'.join(path)}, which the program sets itself: remove it"
            f"{f', and {instead}' if instead.startswith('set ') else f'; {instead}' if instead else ''}."
        )
