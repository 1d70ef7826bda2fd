"""The metrics adapter: what may be set on it, and everything that can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from autoscaling.ack.versions import ADAPTER_CHART
from autoscaling.metrics.adapter_rules import RulePreset
from autoscaling.metrics.adapter_values import own_in
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
_IDLE = "metricsAdapter.idleAsZero"
_VALUES = "metricsAdapter.values"

_MAX_AGE_SECONDS = 20 * 60
"""The adapter forgets series older than this. Its chart has no value for it, and a longer relist stops its start."""

_RELIST_INTERVAL = Duration(
    "a duration such as 30s or 1m, from 1s to 20m, the adapter's fixed maximum age", 1, _MAX_AGE_SECONDS
)


class MetricsAdapter(Model):
    """The adapter's release."""

    chart: Text = ADAPTER_CHART
    """URL of a chart, or a path relative to the project."""
    rules: RulePreset = "hardened"
    """The guide's rules with their faults mended, or its own two lists."""
    labels: LabelPreset = "ack"
    """How the GPU exporter names its labels: ACK's own, or NVIDIA's dcgm-exporter, whose labels Prometheus keeps or
    gives the prefix `exported_`."""
    extra_rules: list[ExtraRule] = []
    """Rules of your own, after those: see below."""
    idle_as_zero: bool = False
    """Whether a pod with a GPU and no process on it counts as 0; otherwise it has no value for the HPA."""
    relist_interval: Annotated[str, _RELIST_INTERVAL] = "1m"
    """How often the adapter looks for new series, such as 1m; at most 20m."""
    expose: list[MetricUse] = []
    """Metrics for services of other stacks, besides those that this stack's services use."""
    values: dict[str, Any] = {}
    """Further values of the chart, such as `{AlibabaCloudMetricsAdapter: {nodeSelector: {...}}}`."""
    adopted: bool = False
    """Whether the release existed before the stack, as `./ackgpu adopt` writes; it stays when the stack is
    destroyed."""
    retain_on_delete: bool = False
    """Whether the release stays when the stack is destroyed."""


def adapter_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault and warning of the adapter."""
    yield from _presets(settings)
    for position, use in enumerate(settings.metrics_adapter.expose):
        yield from _exposed(use, f"metricsAdapter.expose[{position}]", settings)
    own = [name_of_rule(rule) for rule in settings.rule_set.rules()]
    for finding in extra_rule_findings(settings.metrics_adapter.extra_rules, own):
        yield Finding(f"{finding.key} {finding.text}.", ("metricsAdapter",), finding.severity)
    yield from _chart_values(settings)


def _presets(settings: Settings) -> Iterator[Finding]:
    adapter = settings.metrics_adapter
    if adapter.rules != "hardened" and adapter.labels != "ack":
        yield Finding(
            f"{_LABELS} is {adapter.labels!r}, and the rules {adapter.rules!r} are written for ACK's labels: set "
            f"{_RULES} to hardened.",
            ("metricsAdapter",),
        )
    if adapter.idle_as_zero and (adapter.rules != "hardened" or adapter.labels != "ack"):
        yield Finding(
            f"{_IDLE} needs {_RULES} hardened and {_LABELS} ack, since it counts the series "
            "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED of ACK's exporter: remove it.",
            ("metricsAdapter",),
        )


def _exposed(use: MetricUse, key: str, settings: Settings) -> Iterator[Finding]:
    """For services of other stacks."""
    metric = catalogue().find(use.name)
    if metric:
        problem = next(why_unusable(use, metric, key, settings), None)
        if problem:
            yield problem
    elif use.name not in exposed_metrics(settings.metrics_adapter.extra_rules):
        names = [one.name for one in catalogue().metrics]
        yield Finding(
            f"{key}.name is {use.name!r}, which no rule exposes: {nearest(use.name, names)}", ("metricsAdapter",)
        )


def _chart_values(settings: Settings) -> Iterator[Finding]:
    """Every value that two would set."""
    for path, instead in own_in(settings.metrics_adapter.values):
        yield Finding(
            f"{_VALUES} sets {'.'.join(path)}, which the program sets itself: remove it"
            f"{f', and {instead}' if instead.startswith('set ') else f'; {instead}' if instead else ''}.",
            ("metricsAdapter",),
        )
