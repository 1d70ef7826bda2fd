"""Rules for prometheus-adapter, whose grammar the vendor's adapter shares.

Three presets. `seed` and `seed-complete` are the guide's two lists as they are. `hardened` exposes the same names, and
those that services use besides, with the faults of those mended:

* each query aggregates by `<<.GroupBy>>`: without, one of several series of a pod wins at random;
* what `seriesQuery` selects is selected again in the query: the adapter does not carry it over;
* the ratio is in percent, as the guide's table says (its rules give 0..1), and its denominator is matched to the same
  objects (the guide's sums all pods of the name, in every namespace);
* values outside a metric's range are dropped;
* device metrics are mapped to pods too, which an HPA needs; `docs/assumptions.md` says on what this rests;
* `name.matches` is anchored: it is a search otherwise.
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
"""Has a series for each container with a GPU, whether a process runs on it or not."""


@dataclass(frozen=True)
class ExposedMetric:
    """One metric as the adapter exposes it."""

    metric: GpuMetric
    aggregation: Aggregation
    resources: tuple[str, ...]
    """Kubernetes resources that have values, in the singular."""
    range: tuple[float, float]
    """Lowest and highest value that the rule gives for one series."""

    @property
    def name(self) -> str:
        """The name in the custom metrics API."""
        return self.metric.exposed_as(self.aggregation)


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """What the adapter exposes, and by which rules."""

    preset: RulePreset = "hardened"
    labels: LabelPreset = "ack"
    """`seed` and `seed-complete` are written for `ack`."""
    card_mode: CardModeName = "exclusive"
    """Of the GPU nodes: on a shared card the card's metrics are of no pod."""
    idle_as_zero: bool = False
    """Whether a pod with a GPU and no process on it reads 0 in metrics of processes; for `ack` and `hardened`."""
    uses: frozenset[tuple[str, Aggregation | None]] = frozenset()
    """Metrics that services use, with their aggregation where it is not the default; unknown ones are left out."""

    @cached_property
    def exposed(self) -> Sequence[ExposedMetric]:
        """In the catalogue's order, which never depends on that of the services."""
        return list(self._exposed())

    def find(self, name: str) -> ExposedMetric | None:
        """The metric that is exposed under this name."""
        return next((exposed for exposed in self.exposed if exposed.name == name), None)

    def rules(self) -> list[Rule]:
        """The rules as the chart takes them, in a fixed order."""
        if self.preset == "hardened":
            return [self._hardened(exposed) for exposed in self.exposed]
        complete = self.preset == "seed-complete"
        own = [_seed(exposed, aggregated=not complete) for exposed in self.exposed]
        return [*_SEED_CPU_AND_MEMORY, *own] if complete else own

    def _exposed(self) -> Iterable[ExposedMetric]:
        for metric in catalogue().metrics:
            aggregations = {metric.aggregation} if metric.guide else set()
            if self.preset == "hardened":
                aggregations |= {own or metric.aggregation for name, own in self.uses if name == metric.name}
            resources = self._resources(metric)
            if resources and metric.exported_under(self.labels):
                for aggregation in sorted(aggregations):
                    yield ExposedMetric(metric, aggregation, resources, self._range(metric))

    def _resources(self, metric: GpuMetric) -> tuple[str, ...]:
        has_node = metric.level != "container" and catalogue().labels_of(metric, self.labels).node
        nodes = ("node",) if has_node else ()
        of_a_pod = self.card_mode in metric.card_modes and (metric.level != "device" or self.preset == "hardened")
        return ("namespace", *nodes, "pod") if of_a_pod else nodes

    def _range(self, metric: GpuMetric) -> tuple[float, float]:
        low, high = metric.range
        return (low / 100, high / 100) if metric.ratio and self.preset != "hardened" else (low, high)

    def _hardened(self, exposed: ExposedMetric) -> Rule:
        metric = exposed.metric
        labels = catalogue().labels_of(metric, self.labels)
        # A card that no pod has counts for its node.
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
            # A denominator of 0 would make infinity of a pod that was given no memory.
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
