"""Rules for the vendor's adapter, in prometheus-adapter's grammar.

There are three presets. `seed` and `seed-complete` are the guide's two lists, unchanged. `hardened` exposes the same
names and the other metrics that services use. It fixes the guide's errors:

* Each query aggregates by `<<.GroupBy>>`. Otherwise the adapter picks one of a pod's series at random.
* The query repeats the matchers of `seriesQuery`. The adapter does not copy them.
* The ratio is in percent, as in the guide's table (its rules give 0..1). Its denominator covers the same objects (the
  guide's adds up pods of the same name in every namespace).
* Values outside a metric's range are dropped.
* Device metrics map to pods too, because an HPA needs that; see `docs/assumptions.md`.
* `name.matches` is anchored. It is a search otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from autoscaling.ack.card_modes import CardModeName
from autoscaling.metrics.catalogue import Aggregation, GpuMetric, LabelPreset, Labels, catalogue

RulePreset = Literal["hardened", "seed", "seed-complete"]
RULE_PRESETS: tuple[RulePreset, ...] = get_args(RulePreset)

Rule = dict[str, Any]

_SERIES = "<<.Series>>"
_MATCHERS = "<<.LabelMatchers>>"
_GROUP = "<<.GroupBy>>"

_ALLOCATED = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"
"""Has a series for each container with a GPU, even without a process on the GPU."""


@dataclass(frozen=True)
class ExposedMetric:
    """A metric that the adapter exposes."""

    metric: GpuMetric
    aggregation: Aggregation
    resources: tuple[str, ...]
    """Kinds of Kubernetes object that have a value, in the singular."""
    range: tuple[float, float]
    """Lowest and highest value that the rule gives for a series."""

    @property
    def name(self) -> str:
        """Name in the custom metrics API."""
        return self.metric.exposed_as(self.aggregation)


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """The adapter's metrics and rules."""

    preset: RulePreset = "hardened"
    labels: LabelPreset = "ack"
    """The exporter's label names; `seed` and `seed-complete` support only `ack`."""
    card_mode: CardModeName = "exclusive"
    """Card mode of the GPU nodes: the device metrics of a shared card belong to no single pod."""
    idle_as_zero: bool = False
    """Whether process metrics are 0 for a pod without a process on its GPU; requires `ack` and `hardened`."""
    uses: frozenset[tuple[str, Aggregation | None]] = frozenset()
    """Metrics that services use, with their aggregation if it is not the default. Unknown names are ignored."""

    @cached_property
    def exposed(self) -> Sequence[ExposedMetric]:
        """Metrics in the catalogue's order, whatever the order of the services."""
        return list(self._exposed())

    def find(self, name: str) -> ExposedMetric | None:
        """Return the metric with this exposed name, or None."""
        return next((exposed for exposed in self.exposed if exposed.name == name), None)

    def rules(self) -> list[Rule]:
        """Return the rules in the chart's format, in a fixed order."""
        if self.preset == "hardened":
            return [self._hardened(exposed) for exposed in self.exposed]
        complete = self.preset == "seed-complete"
        own = [_seed(exposed, aggregated=not complete) for exposed in self.exposed]
        return [*_SEED_CPU_AND_MEMORY, *own] if complete else own

    def _exposed(self) -> Iterable[ExposedMetric]:
        for metric in catalogue().metrics:
            aggregations = {metric.aggregation} if metric.guide else set()
            if self.preset == "hardened":
                aggregations |= {used or metric.aggregation for name, used in self.uses if name == metric.name}
            resources = self._resources(metric)
            if resources and metric.exported_under(self.labels):
                for aggregation in sorted(aggregations):
                    yield ExposedMetric(metric, aggregation, resources, self._range(metric))

    def _resources(self, metric: GpuMetric) -> tuple[str, ...]:
        has_node = metric.level != "container" and catalogue().labels_of(metric, self.labels).node
        nodes = ("node",) if has_node else ()
        has_pod = self.card_mode in metric.card_modes and (metric.level != "device" or self.preset == "hardened")
        return ("namespace", *nodes, "pod") if has_pod else nodes

    def _range(self, metric: GpuMetric) -> tuple[float, float]:
        low, high = metric.range
        return (low / 100, high / 100) if metric.ratio and self.preset != "hardened" else (low, high)

    def _hardened(self, exposed: ExposedMetric) -> Rule:
        metric = exposed.metric
        labels = catalogue().labels_of(metric, self.labels)
        # A card without a pod still counts for its node.
        static = "" if metric.level == "device" and labels.node else _pod_matchers(labels)
        matchers = f"{_MATCHERS},{static}" if static else _MATCHERS
        source = catalogue().get(metric.ratio.numerator) if metric.ratio else metric
        discovered = _ALLOCATED if self._idle_counts(metric) else source.series
        series = source.series if self._idle_counts(metric) else _SERIES
        low, high = (bound / source.scale for bound in source.range)
        aggregated = f"{exposed.aggregation}(({series}{{{matchers}}} >= {low:.0f}) <= {high:.0f}) by ({_GROUP})"
        if self._idle_counts(metric):
            aggregated = f"({aggregated} or 0 * max({_ALLOCATED}{{{matchers}}}) by ({_GROUP}))"
        query = aggregated if metric.scale == 1 else f"{metric.scale:.0f} * {aggregated}"
        if metric.ratio:
            # Without `> 0`, a pod with no allocated memory would have an infinite ratio.
            denominator = f"({metric.ratio.denominator}{{{matchers}}} > 0) <= {high:.0f}"
            query = f"100 * {aggregated} / {exposed.aggregation}({denominator}) by ({_GROUP})"
        return {
            "seriesQuery": f"{discovered}{{{static}}}",
            "resources": _overrides(exposed, labels),
            "name": {"matches": f"^{discovered}$", "as": exposed.name},
            "metricsQuery": query,
        }

    def _idle_counts(self, metric: GpuMetric) -> bool:
        return self.idle_as_zero and metric.level in ("process", "container")


def _overrides(exposed: ExposedMetric, labels: Labels) -> dict[str, Any]:
    return {"overrides": {getattr(labels, resource): {"resource": resource} for resource in exposed.resources}}


def _pod_matchers(labels: Labels) -> str:
    return f'{labels.namespace}!="",{labels.pod}!=""'


def _seed(exposed: ExposedMetric, *, aggregated: bool) -> Rule:
    metric, labels = exposed.metric, catalogue().labels["ack"]
    if metric.ratio:
        by = " by " if aggregated else "by"
        numerator = f"sum({_SERIES}{{{_MATCHERS}}}){by}({_GROUP})"
        return {
            "seriesQuery": f"{metric.ratio.numerator}{{{_pod_matchers(labels)}}}",
            "resources": _overrides(exposed, labels),
            "name": {"matches": "^(.*)_MEM_USED", "as": "${1}_GPU_MEM_USED_RATIO"},
            "metricsQuery": f"{numerator} / sum({metric.ratio.denominator}{{}}){by}({_GROUP})",
        }
    plain = f"{_SERIES}{{{_MATCHERS}}}"
    return {
        "seriesQuery": f"{metric.series}{{}}",
        "resources": _overrides(exposed, labels),
        "metricsQuery": f"{exposed.aggregation}({plain}) by ({_GROUP})" if aggregated else plain,
    }


def _seed_cadvisor(series: str, suffix: str, name: str, query: str) -> Rule:
    return {
        "seriesQuery": f'{series}{{namespace!="",pod!=""}}',
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
        "name": {"matches": f"^(.*)_{suffix}", "as": f"${{1}}_{name}"},
        "metricsQuery": f"sum({query}) by ({_GROUP})",
    }


_SEED_CPU_AND_MEMORY = (
    _seed_cadvisor("container_memory_working_set_bytes", "bytes", "bytes_per_second", f"{_SERIES}{{{_MATCHERS}}}"),
    _seed_cadvisor(
        "container_cpu_usage_seconds_total",
        "seconds_total",
        "core_per_second",
        f"rate({_SERIES}{{{_MATCHERS}}}[1m])",
    ),
)
