"""The metrics of an autoscaler: their settings, and the checks on them.

An HPA needs a metric that is exposed for pods, belongs to a single pod, and can reach the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from autoscaling.ack.instance_types import gpu_memory_mib
from autoscaling.metrics.adapter_rules import ExposedMetric
from autoscaling.metrics.catalogue import Aggregation, GpuMetric, catalogue
from autoscaling.metrics.extra_rule_checks import EXTRA_RULES, exposed_metrics
from autoscaling.quantity import parse_quantity
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import FORM, MEMORY, Amount, Model, Text
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.services import Service
    from autoscaling.settings.stack import Settings

_READ = ("services", "metricsAdapter", "gpuNodePool")
_RULES = "metricsAdapter.rules"
_LABELS = "metricsAdapter.labels"
_CARD_MODE = "gpuNodePool.cardMode"
_LEAST_MIB = 100
"""A target below this value was probably meant in GiB."""


def _target_with_unit(value: object) -> object:
    if isinstance(value, str) and not _is_number(value):
        raise PydanticCustomError(
            FORM, "must be a number in the metric's unit, such as 20; for a metric in MiB also 512Mi or 10Gi"
        )
    return value


def _is_number(text: str) -> bool:
    try:
        Decimal(text)
    except ArithmeticError:
        return False
    return True


class MetricUse(Model):
    """A metric that the adapter exposes for services of other stacks."""

    name: Text
    """A metric in docs/metrics.md, or a metric that your own rules expose."""
    aggregation: Aggregation | None = None
    """How the series of a pod are combined into one value; docs/metrics.md lists the defaults."""

    @property
    def exposed_name(self) -> str:
        """Name under which the adapter exposes the metric."""
        metric = catalogue().find(self.name)
        return metric.exposed_as(self.aggregation) if metric else self.name


class MetricTarget(MetricUse):
    """A metric and its target."""

    target: Annotated[Amount, BeforeValidator(_target_with_unit)]
    """Target for the average over the pods, in the metric's unit. For a metric in MiB, an amount such as `512Mi` or
    `4G` is also allowed."""

    @model_validator(mode="before")
    @classmethod
    def _memory_in_mib(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        metric = catalogue().find(str(values.get("name")))
        target = str(values.get("target"))
        if not metric or metric.unit != "MiB" or not re.fullmatch(MEMORY, target):
            return values
        # As text: the error of a target out of range shows it.
        return {**values, "target": f"{round(parse_quantity(target) / 2**20, 3).normalize():f}"}


def metric_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of the services' metrics."""
    for index, service in enumerate(settings.services):
        seen: set[str] = set()
        for position, use in enumerate(service.autoscaler.metrics):
            key = f"services[{index}].autoscaler.metrics[{position}]"
            if use.exposed_name in seen:
                yield Finding(
                    f"{key}.name is {use.name!r}, which the HPA already reads: remove one of the two.", ("services",)
                )
                continue
            seen.add(use.exposed_name)
            yield from _use(use, key, service, settings)


def _use(use: MetricTarget, key: str, service: Service, settings: Settings) -> Iterator[Finding]:
    metric, exposed = catalogue().find(use.name), settings.rule_set.find(use.exposed_name)
    extra = exposed_metrics(settings.metrics_adapter.extra_rules)
    if metric is None or (exposed is None and use.exposed_name in extra):
        for sentence in _extra_rule(use, key, extra):
            yield Finding(sentence, ("services", "metricsAdapter"))
    elif problem := why_unusable(use, metric, key, settings):
        yield Finding(problem, _READ)
    else:
        if exposed:
            yield from _target(use, exposed, key, service, settings)
        yield from _engine(metric, key, service)


def _extra_rule(use: MetricTarget, key: str, extra: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return the errors of a metric that only a user's own rule exposes; its unit and range are unknown."""
    name = use.exposed_name
    if name not in extra:
        names = [*extra, *(metric.name for metric in catalogue().metrics)]
        yield f"{key}.name is {use.name!r}, which no rule exposes: {nearest(use.name, names)}"
        return
    if "pod" not in extra[name]:
        yield (
            f"{key}.name is {use.name!r}, which {EXTRA_RULES} exposes for {' and '.join(extra[name])} only, but an HPA "
            "reads metrics of pods: in that rule's resources.overrides, map a label to pod."
        )
    if use.aggregation and name == use.name:
        yield (
            f"{key}.aggregation is {use.aggregation!r}, but {use.name} comes from {EXTRA_RULES}, whose query already "
            "aggregates: remove aggregation."
        )


def why_unusable(use: MetricUse, metric: GpuMetric, key: str, settings: Settings) -> str | None:
    """Return the first reason why no HPA can use a metric of the catalogue with these settings."""
    adapter, mode = settings.metrics_adapter, settings.gpu_node_pool.card_mode
    name_is = f"{key}.name is {use.name!r}"
    if mode == "mig" and adapter.labels == "ack" and metric.level != "engine":
        return (
            f"{_CARD_MODE} is mig, and ACK's GPU monitoring does not cover MIG: run NVIDIA's dcgm-exporter, set "
            f"{_LABELS} to upstream, and set {key}.name to DCGM_FI_PROF_GR_ENGINE_ACTIVE."
        )
    if not metric.exported_under(adapter.labels):
        return (
            f"{name_is}, which only ACK's exporter provides, but {_LABELS} is {adapter.labels!r}: choose "
            f"{_usable(settings)}."
        )
    if mode not in metric.card_modes:
        reason = (
            "which is missing or always 0 on MIG instances"
            if mode == "mig"
            else f"which measures a whole card, but with {_CARD_MODE} set to {mode}, several pods share a card"
        )
        return f"{name_is}, {reason}: choose {_usable(settings)}."
    exposed = settings.rule_set.find(use.exposed_name)
    if exposed is None:
        what = f"{key}.aggregation is {use.aggregation!r}" if metric.guide else name_is
        return (
            f"{what}, but with {_RULES} set to {adapter.rules} the adapter does not expose it: set {_RULES} to "
            "hardened."
        )
    if "pod" not in exposed.resources:
        return (
            f"{name_is}, but with {_RULES} set to {adapter.rules}, the adapter exposes this metric for nodes only. An "
            f"HPA reads metrics of pods: set {_RULES} to hardened, or choose a DCGM_CUSTOM_ metric."
        )
    return None


def _usable(settings: Settings) -> str:
    labels, mode = settings.metrics_adapter.labels, settings.gpu_node_pool.card_mode
    names = [
        metric.name for metric in catalogue().metrics if metric.exported_under(labels) and mode in metric.card_modes
    ]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _target(
    use: MetricTarget, exposed: ExposedMetric, key: str, service: Service, settings: Settings
) -> Iterator[Finding]:
    target_key, target = f"{key}.target", use.target
    highest, unit = _highest(exposed, service)
    if target > highest:
        yield Finding(
            f"{target_key} is {target:f}, which {exposed.name} never reaches: with {_RULES} set to "
            f"{settings.metrics_adapter.rules}, its maximum is {highest:f}{unit}. Lower the target.",
            _READ,
        )
        return
    yield from _slip(use, exposed, target_key)
    if exposed.metric.unit == "MiB":
        memory, whose = _memory_of_a_pod(exposed, service, settings)
        if memory is None:
            return
        if target > memory:
            yield Finding(
                f"{target_key} is {target:f} MiB, which {exposed.name} never reaches: {whose} {memory} MiB. Lower "
                "the target.",
                _READ,
            )
            return
        highest, unit = Decimal(memory), " MiB"
    most = _highest_useful(highest)
    if target > most:
        yield Finding(
            f"{target_key} is {target:f}{unit}, but an HPA adds replicas only above 1.1 x the target, and "
            f"{exposed.name} is at most {highest:f}{unit}: use a target of at most {most:f}.",
            _READ,
            "warning",
        )


def _highest_useful(highest: Decimal) -> Decimal:
    """Return the highest target at which the HPA still adds replicas when the metric is at its maximum.

    The HPA controller ignores a ratio of value to target up to 1.1: `--horizontal-pod-autoscaler-tolerance` is 0.1 by
    default, and users of a managed cluster cannot change it.
    """
    step = Decimal(1) if highest >= 100 else Decimal("0.001")
    return (highest / step * 10 - 1) // 11 * step


def _slip(use: MetricTarget, exposed: ExposedMetric, target_key: str) -> Iterator[Finding]:
    metric, hint = exposed.metric, None
    if metric.unit == "%" and exposed.range == metric.range and use.target <= 1:
        percent = f"{(use.target * 100).normalize() + 0:f}"
        hint = f"{use.target:f} %: if you meant {percent} %, write {percent}"
    elif metric.unit == "MiB" and use.target < _LEAST_MIB:
        hint = f"{use.target:f} MiB: if you meant GiB, write {use.target:f}Gi"
    if hint:
        yield Finding(f"{target_key} is {hint}.", ("services", "metricsAdapter"), "warning")


def _highest(exposed: ExposedMetric, service: Service) -> tuple[Decimal, str]:
    metric, highest = exposed.metric, exposed.range[1]
    # The guide's own rules give the ratio as 0..1.
    unit = f" {metric.unit}" if highest == metric.range[1] else ""
    cards = service.gpus if exposed.aggregation == "sum" and not metric.ratio else 1
    return Decimal(str(highest * cards)).normalize() + 0, unit


def _memory_of_a_pod(exposed: ExposedMetric, service: Service, settings: Settings) -> tuple[int | None, str]:
    """Return the maximum of a pod's memory metric in MiB, or None if unknown; and the source of that maximum."""
    pool = settings.gpu_node_pool
    largest = gpu_memory_mib(pool.instance_types)
    if pool.card_mode == "share":
        # Pods may use more than they request.
        return largest, "a card of the pool has"
    if service.gpu_memory_gib:
        return service.gpu_memory_gib * 1024, "a pod gets"
    if exposed.aggregation != "sum":
        return largest, "a GPU of the pool has"
    return largest and largest * service.gpus, "the GPUs of a pod have"


def _engine(metric: GpuMetric, key: str, service: Service) -> Iterator[Finding]:
    found = re.search("vllm|sglang", service.image, re.IGNORECASE)
    engine = found[0].lower() if found else None
    if engine is None or (metric.level == "engine" and metric.name.startswith(engine)):
        return
    own = [metric.name for metric in catalogue().metrics if metric.name.startswith(engine)]
    why = (
        "which does not have this metric"
        if metric.level == "engine"
        else "which fills the GPU's memory at startup and keeps the GPU busy at any load"
    )
    yield Finding(
        f"{key}.name is {metric.name!r}, but the image {service.image} looks like {engine}, {why}: consider "
        f"{' or '.join(own)}.",
        ("services",),
        "warning",
    )
