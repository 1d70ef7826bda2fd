"""What must hold between settings: names, metric and target, capacity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from autoscaling.adapter_rules import RULE_PRESETS, RulePreset, effective_range, exposed_resources, rules
from autoscaling.exposed_name import name_of_rule
from autoscaling.extra_rule_checks import EXTRA_RULES, RuleFinding, exposed_metrics, extra_rule_findings
from autoscaling.faults import nearest
from autoscaling.gpu_metrics import GpuMetric, catalogue
from autoscaling.instance_types import InstanceType, find_instance_type
from autoscaling.settings_model import GpuNodePool, Service, Settings

_RULES = "metricsAdapter.rules"
_TYPES = "gpuNodePool.instanceTypes"
_PER_NODE = "gpuNodePool.gpusPerNode"
_POOL_SIZE = ("gpuNodePool.size", "gpuNodePool.autoscaling")


@dataclass(frozen=True)
class Finding:
    """A fault between settings."""

    sentence: str
    keys: tuple[str, ...]
    """Whose values it rests on."""


def findings(settings: Settings) -> Iterator[Finding]:
    """Every fault between the settings."""
    pool = settings.gpu_node_pool
    yield from _pool_size(pool)
    yield from _instance_types(pool)
    yield from _unique_names(settings)
    for index, service in enumerate(settings.services):
        key = f"services[{index}]"
        yield from _replicas(service, key)
        yield from _metric(service, key, settings)
    yield from _capacity(settings)
    yield from _extra_rules(settings)


def _pool_size(pool: GpuNodePool) -> Iterator[Finding]:
    if (pool.size is None) == (pool.autoscaling is None):
        yield Finding("gpuNodePool: set exactly one of size (fixed) and autoscaling ({min, max}).", _POOL_SIZE)
    limits = pool.autoscaling
    if limits and limits.min > limits.max:
        yield Finding(
            f"gpuNodePool.autoscaling.min is {limits.min}, above max ({limits.max}): lower it or raise max.",
            ("gpuNodePool.autoscaling.min", "gpuNodePool.autoscaling.max"),
        )


def _instance_types(pool: GpuNodePool) -> Iterator[Finding]:
    rows = [find_instance_type(name) for name in pool.instance_types]
    for name, row in zip(pool.instance_types, rows, strict=True):
        if row is None and pool.gpus_per_node is None:
            yield Finding(
                f"{_TYPES} has {name}, which is not in the table of GPU instance types: set {_PER_NODE} if it has "
                "GPUs, else choose a GPU type (ecs.gn...).",
                (_TYPES, _PER_NODE),
            )
        elif row and not row.usable_on_ack:
            yield Finding(f"{_TYPES} has {name}, which ACK does not support: choose a type without -tee.", (_TYPES,))
        elif row and row.gpus < 1:
            yield Finding(
                f"{_TYPES} has {name} with a slice of a GPU ({row.gpus:g}), and a pod asks for whole GPUs: choose a "
                "type with at least one.",
                (_TYPES,),
            )
        elif row and row.gpus_documented and pool.gpus_per_node not in (None, row.gpus):
            yield Finding(
                f"{_PER_NODE} is {pool.gpus_per_node}, but {name} has {row.gpus:g}: remove it, it is for types that "
                "the table lacks.",
                (_TYPES, _PER_NODE),
            )
    counts = {row.gpus for row in rows if row and row.gpus >= 1}
    if len(counts) > 1 and pool.gpus_per_node is None:
        yield Finding(
            f"{_TYPES} mixes types with different numbers of GPUs ({', '.join(f'{one:g}' for one in sorted(counts))}): "
            "use types with the same number.",
            (_TYPES,),
        )


def _unique_names(settings: Settings) -> Iterator[Finding]:
    services: dict[str, list[str]] = defaultdict(list)
    autoscalers: dict[str, list[str]] = defaultdict(list)
    for index, service in enumerate(settings.services):
        services[f"{service.namespace}/{service.name}"].append(f"services[{index}]")
        autoscalers[f"{service.namespace}/{service.autoscaler_name}"].append(f"services[{index}]")
    for what, names, keys in (
        ("services", services, ("namespace", "name")),
        ("autoscalers", autoscalers, ("namespace", "name", "autoscaler.name")),
    ):
        for name, where in names.items():
            if len(where) > 1:
                yield Finding(
                    f"services: {len(where)} {what} are named {name} ({', '.join(where)}): give each its own name.",
                    tuple(f"{one}.{key}" for one in where for key in keys),
                )


def _replicas(service: Service, key: str) -> Iterator[Finding]:
    low, high = service.autoscaler.min_replicas, service.autoscaler.max_replicas
    if low > high:
        yield Finding(
            f"{key}.autoscaler.minReplicas is {low}, above maxReplicas ({high}): lower it or raise maxReplicas.",
            (f"{key}.autoscaler.minReplicas", f"{key}.autoscaler.maxReplicas"),
        )


def _metric(service: Service, key: str, settings: Settings) -> Iterator[Finding]:
    preset = settings.metrics_adapter.rules
    chosen, target = service.autoscaler.metric, service.autoscaler.target
    metric_key, target_key = f"{key}.autoscaler.metric", f"{key}.autoscaler.target"
    metric = catalogue().find(chosen)
    if metric is None:
        yield from _own_metric(chosen, metric_key, settings)
        return
    if "pods" not in exposed_resources(metric, preset):
        able = [other for other in RULE_PRESETS if "pods" in exposed_resources(metric, other)]
        yield Finding(
            f"{metric_key} is {chosen!r}, which the rules {preset!r} expose for nodes only, and an HPA reads pods: "
            f"set {_RULES} to {' or '.join(able)}, or choose a DCGM_CUSTOM_ metric.",
            (metric_key, _RULES),
        )
    highest, unit = _highest(metric, preset)
    if target > highest:
        yield Finding(
            f"{target_key} is {target:f}, which {chosen} never reaches: with the rules {preset!r} it is at most "
            f"{highest:f}{unit}.",
            (target_key, metric_key, _RULES),
        )
        return
    memory = _memory_of_a_pod(service, settings.gpu_node_pool) if metric.unit == "MiB" else None
    if memory is not None and target > memory:
        yield Finding(
            f"{target_key} is {target:f} MiB, which {chosen} never reaches: the GPUs of a pod have {memory} MiB.",
            (target_key, metric_key, _TYPES, f"{key}.gpus"),
        )


def _own_metric(chosen: str, metric_key: str, settings: Settings) -> Iterator[Finding]:
    """What is wrong with a metric that the catalogue lacks, and whose unit and range nobody knows."""
    exposed = exposed_metrics(settings.metrics_adapter.extra_rules)
    if chosen not in exposed:
        names = [*exposed, *(one.name for one in catalogue().metrics)]
        yield Finding(
            f"{metric_key} is {chosen!r}, which no rule exposes: {nearest(chosen, names)}", (metric_key, EXTRA_RULES)
        )
    elif "pods" not in exposed[chosen]:
        yield Finding(
            f"{metric_key} is {chosen!r}, which {EXTRA_RULES} exposes for {' and '.join(exposed[chosen])} only, and an "
            "HPA reads pods: give that rule a label of the pod under resources.overrides.",
            (metric_key, EXTRA_RULES),
        )


def _extra_rule_findings(settings: Settings) -> Iterator[RuleFinding]:
    adapter = settings.metrics_adapter
    return extra_rule_findings(adapter.extra_rules, [name_of_rule(rule) for rule in rules(adapter.rules)])


def _extra_rules(settings: Settings) -> Iterator[Finding]:
    for one in _extra_rule_findings(settings):
        if one.severity == "error":
            yield Finding(one.sentence, one.keys)


def warnings(settings: Settings) -> Iterator[str]:
    """What is hardly meant so, though it works."""
    return (one.sentence for one in _extra_rule_findings(settings) if one.severity == "warning")


def _highest(metric: GpuMetric, preset: RulePreset) -> tuple[Decimal, str]:
    highest = effective_range(metric, preset)[1]
    # The guide's own rules give the ratio as 0..1.
    return Decimal(str(highest)).normalize() + 0, f" {metric.unit}" if highest == metric.range[1] else ""


def _memory_of_a_pod(service: Service, pool: GpuNodePool) -> int | None:
    """Memory of the largest GPUs that a pod can get, in MiB; None where no table knows it."""
    rows = [find_instance_type(name) for name in pool.instance_types]
    sizes = [row.gpu_memory_gib for row in rows if row and row.gpu_memory_gib]
    return int(max(sizes) * 1024) * service.gpus if len(sizes) == len(rows) else None


def _gpus_per_node(pool: GpuNodePool) -> int | None:
    """None where the instance types don't agree on a number."""
    if pool.gpus_per_node is not None:
        return pool.gpus_per_node
    rows: list[InstanceType | None] = [find_instance_type(name) for name in pool.instance_types]
    counts = {row.gpus if row else 0 for row in rows}
    count = counts.pop() if len(counts) == 1 else 0
    return int(count) if count >= 1 else None


def _capacity(settings: Settings) -> Iterator[Finding]:
    pool = settings.gpu_node_pool
    per_node = _gpus_per_node(pool)
    if per_node is None:
        return
    read = (_TYPES, _PER_NODE)
    too_large = [index for index, service in enumerate(settings.services) if service.gpus > per_node]
    for index in too_large:
        gpus = settings.services[index].gpus
        yield Finding(
            f"services[{index}].gpus is {gpus}, but a node of the pool has {per_node}: lower it.",
            (*read, f"services[{index}].gpus"),
        )
    if too_large or (pool.size is None) == (pool.autoscaling is None):
        return
    nodes = pool.autoscaling.max if pool.autoscaling else pool.size or 0
    needed = sum(service.autoscaler.max_replicas * service.gpus for service in settings.services)
    if needed > nodes * per_node:
        each = [f"services[{index}].{key}" for index in range(len(settings.services)) for key in _DEMAND]
        yield Finding(
            f"services can ask for {needed} GPUs (the sum of maxReplicas x gpus), but gpuNodePool offers at most "
            f"{nodes * per_node} ({nodes} nodes x {per_node}): raise the pool or lower maxReplicas.",
            (*read, *_POOL_SIZE, *each),
        )


_DEMAND = ("gpus", "autoscaler.maxReplicas")
