"""Why a metric has no value for a pod: the first broken link from rule to exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name, series_name
from live.verify.adapter import Adapter
from live.verify.prometheus import Prometheus, PrometheusError

_LISTED = 8
"""Maximum number of names in a sentence."""


def why_no_value(
    metric: str, adapter: Adapter, pods: Sequence[str] = (), missing_exporter: Callable[[], str | None] = lambda: None
) -> str:
    """Return a sentence about the broken link.

    Args:
        metric: the exposed name.
        adapter: configuration of the running adapter.
        pods: Ready pods without a value; empty if the adapter does not list the metric.
        missing_exporter: returns which nodes lack the exporter. Called for GPU metrics only.
    """
    rule = next((rule for rule in adapter.rules if exposed_name(rule) == metric), None)
    if rule is None:
        exposed = sorted({name for rule in adapter.rules if (name := exposed_name(rule))})
        return (
            f"no adapter rule exposes {metric} (exposed: {_some(exposed)}). If the adapter's ConfigMap was changed by "
            "hand, revert the change: Pulumi does not detect it"
        )
    query = str(rule["seriesQuery"])
    # Before Prometheus, which is often unreachable from this machine.
    gap = missing_exporter() if _is_gpu_series(series_name(rule) or query) else None
    if gap:
        return gap
    try:
        return _broken_series(rule, query, Prometheus(adapter.prometheus_url, adapter.prometheus_headers), pods)
    except PrometheusError as error:
        return f"Prometheus {error}"


def _broken_series(rule: Rule, query: str, prometheus: Prometheus, pods: Sequence[str]) -> str:
    name = series_name(rule) or query
    series = prometheus.current_series(query) or prometheus.current_series(name)
    if not series:
        return _no_series(name, prometheus)
    labels = _labels_by_resource(rule)
    missing = [label for label in labels.values() if not any(labelset.get(label) for labelset in series)]
    if missing:
        found = sorted({label for labelset in series for label in labelset} - {"__name__"})
        return (
            f"wrong labels: the rule finds pods by {' and '.join(missing)}, but the series of {name} do not have that. "
            f"Their labels are {', '.join(found)}: {_label_cause(name)}"
        )
    pod_label = labels.get("pod")
    lacking = [pod for pod in pods if pod_label and not any(labelset.get(pod_label) == pod for labelset in series)]
    if lacking:
        why = "no process uses the pod's GPU" if _is_gpu_series(name) else "Prometheus does not scrape the pod"
        return f"no series: {name} has no series with {pod_label} {_some(lacking)}, because {why}"
    return f"Prometheus has {name}, but the adapter has not found it yet: wait for metricsAdapter.relistInterval"


def _no_series(name: str, prometheus: Prometheus) -> str:
    if not _is_gpu_series(name):
        return (
            f"no series: Prometheus has no series named {name}. Check that the pods expose it, and that a "
            "ServiceMonitor or PodMonitor lets Prometheus scrape them"
        )
    family = name.partition("_")[0]
    others = prometheus.current_series(f'{{__name__=~"{family}_.+"}}')
    if not others:
        return (
            f"no exporter: Prometheus has no series {family}_*: turn on GPU monitoring for the cluster, and check "
            "that the exporter runs on each GPU node"
        )
    names = sorted({labelset["__name__"] for labelset in others})
    return f"no series: the exporter has no {name}, because no process uses a GPU (the exporter has {_some(names)})"


def _is_gpu_series(name: str) -> bool:
    # Pods expose all other series: inference engines' metrics, or series of a user's rule.
    return name.startswith("DCGM_")


def _label_cause(name: str) -> str:
    if _is_gpu_series(name):
        return "the exporter is not ACK's, or uses other label names: set metricsAdapter.labels"
    return "use the same label names in the rule and in the scrape configuration"


def _labels_by_resource(rule: Rule) -> dict[str, str]:
    overrides = (rule.get("resources") or {}).get("overrides") or {}
    by_resource = {str(target.get("resource")): str(label) for label, target in overrides.items()}
    return {resource: label for resource, label in by_resource.items() if resource in ("namespace", "pod")}


def _some(names: Iterable[str]) -> str:
    all_names = list(names)
    rest = len(all_names) - _LISTED
    return ", ".join(all_names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "") or "none"
