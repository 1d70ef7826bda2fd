"""Rules for prometheus-adapter, whose grammar the vendor's adapter shares.

Three presets. `seed` and `seed-complete` are the guide's two lists as they are. `hardened` exposes the same names
with the faults of those mended:

* each query aggregates by `<<.GroupBy>>`: without, one of several series of a pod wins at random;
* what `seriesQuery` selects is selected again in the query: the adapter does not carry it over;
* the ratio is in percent, as the guide's table says (its rules give 0..1), and its denominator is matched to the same
  objects (the guide's sums all pods of the name, in every namespace);
* values outside a metric's range are dropped;
* device metrics are mapped to pods too, which an HPA needs; `docs/assumptions.md` says on what this rests;
* `name.matches` is anchored: it is a search otherwise.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from autoscaling.gpu_metrics import GpuMetric, Labels, Ratio, catalogue

RulePreset = Literal["hardened", "seed", "seed-complete"]
RULE_PRESETS: tuple[RulePreset, ...] = get_args(RulePreset)

Rule = dict[str, Any]

_SERIES = "<<.Series>>"
_MATCHERS = "<<.LabelMatchers>>"
_GROUP = "<<.GroupBy>>"


def rules(preset: RulePreset) -> list[Rule]:
    """The rules of a preset as the chart takes them, in a fixed order."""
    labels = catalogue().labels
    if preset == "hardened":
        return [_hardened(metric, labels) for metric in catalogue().metrics]
    complete = preset == "seed-complete"
    own = [_seed(metric, labels, aggregated=not complete) for metric in catalogue().metrics]
    return [*_SEED_CPU_AND_MEMORY, *own] if complete else own


def exposed_resources(metric: GpuMetric, preset: RulePreset) -> tuple[str, ...]:
    """Kubernetes resources that the preset's rule maps the metric to, as the API lists them."""
    return tuple(f"{resource}s" for resource in _resources(metric, preset))


def effective_range(metric: GpuMetric, preset: RulePreset) -> tuple[float, float]:
    """Lowest and highest value that the preset's rule gives for one series."""
    low, high = metric.range
    if metric.ratio and preset != "hardened":
        return low / 100, high / 100
    return low, high


def _resources(metric: GpuMetric, preset: RulePreset) -> tuple[str, ...]:
    if metric.ratio:
        return ("namespace", "pod")
    if metric.level == "device" and preset != "hardened":
        return ("node",)
    return ("namespace", "node", "pod")


def _overrides(metric: GpuMetric, labels: Labels, preset: RulePreset) -> dict[str, Any]:
    return {"overrides": {getattr(labels, resource): {"resource": resource} for resource in _resources(metric, preset)}}


def _pod_matchers(labels: Labels) -> str:
    return f'{labels.namespace}!="",{labels.pod}!=""'


def _hardened(metric: GpuMetric, labels: Labels) -> Rule:
    static = "" if metric.level == "device" else _pod_matchers(labels)
    matchers = f"{_MATCHERS},{static}" if static else _MATCHERS
    source = catalogue().get(metric.ratio.numerator) if metric.ratio else metric
    low, high = source.range
    in_range = f"({_SERIES}{{{matchers}}} >= {low:.0f}) <= {high:.0f}"
    query = f"{metric.aggregation}({in_range}) by ({_GROUP})"
    if metric.ratio:
        # A denominator of 0 would make infinity of a pod that was given no memory.
        denominator = f"({metric.ratio.denominator}{{{matchers}}} > 0) <= {high:.0f}"
        query = f"100 * {query} / {metric.aggregation}({denominator}) by ({_GROUP})"
    return {
        "seriesQuery": f"{source.name}{{{static}}}",
        "resources": _overrides(metric, labels, "hardened"),
        "name": {"matches": f"^{source.name}$", "as": metric.name},
        "metricsQuery": query,
    }


def _seed(metric: GpuMetric, labels: Labels, *, aggregated: bool) -> Rule:
    if metric.ratio:
        return _seed_ratio(metric, metric.ratio, labels, " by " if aggregated else "by")
    plain = f"{_SERIES}{{{_MATCHERS}}}"
    return {
        "seriesQuery": f"{metric.name}{{}}",
        "resources": _overrides(metric, labels, "seed"),
        "metricsQuery": f"{metric.aggregation}({plain}) by ({_GROUP})" if aggregated else plain,
    }


def _seed_ratio(metric: GpuMetric, ratio: Ratio, labels: Labels, by: str) -> Rule:
    numerator = f"sum({_SERIES}{{{_MATCHERS}}}){by}({_GROUP})"
    return {
        "seriesQuery": f"{ratio.numerator}{{{_pod_matchers(labels)}}}",
        "resources": _overrides(metric, labels, "seed"),
        "name": {"matches": "^(.*)_MEM_USED", "as": "${1}_GPU_MEM_USED_RATIO"},
        "metricsQuery": f"{numerator} / sum({ratio.denominator}{{}}){by}({_GROUP})",
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
