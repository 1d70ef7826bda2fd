"""What must hold between settings: names, order of limits, times; metrics and GPUs have modules of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from autoscaling.metrics.exposed_name import name_of_rule
from autoscaling.metrics.extra_rule_checks import extra_rule_findings
from autoscaling.settings.adapter_value_checks import adapter_value_findings
from autoscaling.settings.cluster_checks import cluster_findings
from autoscaling.settings.findings import Finding
from autoscaling.settings.gpu_checks import gpu_findings
from autoscaling.settings.metric_checks import metric_findings
from autoscaling.settings.model import DEFAULT_SCALE_DOWN_WINDOW_SECONDS, Service, Settings, duration_seconds
from autoscaling.settings.pool_checks import pool_findings
from autoscaling.settings.prometheus_checks import prometheus_findings
from autoscaling.settings.service_checks import service_findings


def findings(settings: Settings) -> Iterator[Finding]:
    """Every fault between the settings, and every warning."""
    yield from cluster_findings(settings)
    yield from gpu_findings(settings)
    yield from pool_findings(settings)
    yield from service_findings(settings)
    yield from _unique_names(settings)
    yield from _relist_interval(settings)
    for index, service in enumerate(settings.services):
        key = f"services[{index}]"
        yield from _replicas(service, key)
        yield from _scale_down_window(service, key, settings)
        yield from _behavior(service, key, settings)
    yield from metric_findings(settings)
    own = [name_of_rule(rule) for rule in settings.rule_set.rules()]
    yield from extra_rule_findings(settings.metrics_adapter.extra_rules, own)
    yield from prometheus_findings(settings)
    yield from adapter_value_findings(settings)


def _unique_names(settings: Settings) -> Iterator[Finding]:
    services: dict[str, list[str]] = defaultdict(list)
    autoscalers: dict[str, list[str]] = defaultdict(list)
    for index, service in enumerate(settings.services):
        for name in {service.name, service.object_name}:
            services[f"{service.namespace}/{name}"].append(f"services[{index}]")
        autoscalers[f"{service.namespace}/{service.autoscaler_name}"].append(f"services[{index}]")
    formerly = {f"{one.namespace}/{one.formerly}" for one in settings.services if one.formerly}
    for what, names, keys in (
        ("services", services, ("namespace", "name", "formerly")),
        ("autoscalers", autoscalers, ("namespace", "name", "formerly", "autoscaler.name")),
    ):
        for name, where in names.items():
            if len(where) > 1:
                are = "are or were" if what == "services" and name in formerly else "are"
                yield Finding(
                    f"services: {len(where)} {what} {are} named {name} ({', '.join(where)}): give each its own name.",
                    tuple(f"{one}.{key}" for one in where for key in keys),
                )


def _relist_interval(settings: Settings) -> Iterator[Finding]:
    relist, scrape = settings.metrics_adapter.relist_interval, settings.prometheus.scrape_interval
    if duration_seconds(relist) < 2 * duration_seconds(scrape):
        # Source: prometheus-adapter's README on --metrics-relist-interval, and its issues 325 and 392.
        yield Finding(
            f"metricsAdapter.relistInterval is {relist}, less than 2 x prometheus.scrapeInterval ({scrape}): metrics "
            "would come and go; raise it.",
            ("metricsAdapter.relistInterval", "prometheus.scrapeInterval"),
        )


def _replicas(service: Service, key: str) -> Iterator[Finding]:
    low, high = service.autoscaler.min_replicas, service.autoscaler.max_replicas
    if low > high:
        yield Finding(
            f"{key}.autoscaler.minReplicas is {low}, above maxReplicas ({high}): lower it or raise maxReplicas.",
            (f"{key}.autoscaler.minReplicas", f"{key}.autoscaler.maxReplicas"),
        )


def _scale_down_window(service: Service, key: str, settings: Settings) -> Iterator[Finding]:
    if settings.cluster.autoscaling_api == "v2beta1":
        window = DEFAULT_SCALE_DOWN_WINDOW_SECONDS
        if service.startup_time and window < duration_seconds(service.startup_time):
            yield Finding(
                f"{key}.startupTime is {service.startup_time}, and with cluster.autoscalingApi v2beta1 the scale-down "
                f"window is always {window}s: pods would be taken away before those that replace them are Ready; set "
                "autoscalingApi to v2, or lower startupTime by a faster start.",
                (f"{key}.startupTime", "cluster.autoscalingApi"),
            )
        return
    window = service.autoscaler.scale_down.stabilization_window_seconds
    if service.startup_time and window < duration_seconds(service.startup_time):
        window_key = f"{key}.autoscaler.scaleDown.stabilizationWindowSeconds"
        yield Finding(
            f"{window_key} is {window}, less than startupTime ({service.startup_time}): pods would be taken away "
            "before those that replace them are Ready; raise it.",
            (window_key, f"{key}.startupTime"),
        )


def _behavior(service: Service, key: str, settings: Settings) -> Iterator[Finding]:
    if settings.cluster.autoscaling_api == "v2":
        return
    for name, alias in (("scale_up", "scaleUp"), ("scale_down", "scaleDown")):
        if name in service.autoscaler.model_fields_set:
            yield Finding(
                f"{key}.autoscaler.{alias} can't be set with cluster.autoscalingApi v2beta1, which has no behavior: "
                "remove it.",
                (f"{key}.autoscaler.{alias}", "cluster.autoscalingApi"),
            )
