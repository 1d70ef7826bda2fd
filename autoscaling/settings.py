"""The stack's configuration as one strict, typed model; each default stands here and nowhere else.

`parse` takes the stack's values and either returns `Settings` or raises `SettingsError` with a sentence for each
fault of the file. Nothing here needs the engine or the cloud.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from autoscaling.adapter_rules import RULE_PRESETS, RulePreset, effective_range, exposed_resources
from autoscaling.gpu_metrics import catalogue
from autoscaling.instance_types import find_instance_type
from autoscaling.versions import ADAPTER_CHART

Region = Literal[
    "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-3", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7", "cn-beijing", "cn-chengdu", "cn-guangzhou", "cn-hangzhou",
    "cn-hangzhou-finance", "cn-heyuan", "cn-hongkong", "cn-huhehaote", "cn-north-2-gov-1", "cn-qingdao",
    "cn-shanghai", "cn-shanghai-finance-1", "cn-shenzhen", "cn-shenzhen-finance-1", "cn-wulanchabu",
    "cn-zhangjiakou", "eu-central-1", "eu-west-1", "me-central-1", "us-east-1", "us-west-1",
]  # fmt: skip
"""Regions with both ACK and Managed Prometheus, from their pages of supported regions (2024-11 to 2026-10)."""

ADAPTER_MAX_AGE_SECONDS = 20 * 60
"""The adapter forgets series older than this; its chart has no value for it, and a longer relist stops its start."""

LIMITS_MAX_NODES = 2000
"""Largest `max_size` of a node pool that the provider accepts."""


class SettingsError(Exception):
    """Every fault of a stack's configuration, one sentence a line."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _digits(value: object) -> object:
    # `pulumi stack init` writes a number back in quotes.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _filled_in(value: str) -> str:
    if value.startswith("<"):
        raise ValueError("fill it in")
    return value


def _dns_label(value: str) -> str:
    if len(value) > 63 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", value):
        raise ValueError(
            "a Kubernetes name has at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
        )
    return value


def _instance_type(value: str) -> str:
    if not re.fullmatch(r"ecs\.[a-z0-9-]+(\.[a-z0-9-]+)+", value):
        raise ValueError("an ECS instance type looks like ecs.gn6i-c4g1.xlarge")
    return value


def _duration(value: str) -> str:
    seconds = duration_seconds(value)
    if seconds is None or not 1 <= seconds <= ADAPTER_MAX_AGE_SECONDS:
        raise ValueError("a duration such as 30s or 1m, from 1s to 20m, the adapter's fixed maximum age")
    return value


def duration_seconds(value: str) -> int | None:
    """Seconds of a duration such as `90s`, `1m` or `1m30s`; None where it is none."""
    match = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", value)
    if not match or not value:
        return None
    return int(match[1] or 0) * 60 + int(match[2] or 0)


Text = Annotated[str, Field(min_length=1), AfterValidator(_filled_in)]
Name = Annotated[str, AfterValidator(_filled_in), AfterValidator(_dns_label)]
Count = Annotated[int, BeforeValidator(_digits), Field(ge=1)]
Port = Annotated[int, BeforeValidator(_digits), Field(ge=1, le=65535)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=False
    )


class Cluster(_Model):
    """The ACK cluster, which exists already."""

    id: Text


class PoolLimits(_Model):
    """Between how many nodes the pool's autoscaler moves."""

    min: Annotated[int, BeforeValidator(_digits), Field(ge=0, le=1000)] = 0
    max: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=LIMITS_MAX_NODES)]

    @model_validator(mode="after")
    def _ordered(self) -> PoolLimits:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is above max ({self.max})")
        return self


class SystemDisk(_Model):
    """System disk of each node."""

    category: Literal["cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto"] = "cloud_essd"
    size_gib: Annotated[int, BeforeValidator(_digits), Field(ge=40, le=500, alias="sizeGiB")] = 120


class GpuNodePool(_Model):
    """The pool of GPU nodes: a fixed size, or limits for its autoscaler."""

    name: Name = "gpu"
    instance_types: Annotated[
        list[Annotated[str, AfterValidator(_filled_in), AfterValidator(_instance_type)]],
        Field(min_length=1, max_length=10),
    ]
    vswitch_ids: Annotated[list[Text] | None, Field(min_length=1)] = None
    """None: the cluster's own."""
    size: Count | None = None
    autoscaling: PoolLimits | None = None
    gpus_per_node: Count | None = None
    """None: as in the table of instance types."""
    system_disk: SystemDisk = SystemDisk()

    @model_validator(mode="after")
    def _one_size(self) -> GpuNodePool:
        if (self.size is None) == (self.autoscaling is None):
            raise ValueError("set exactly one of size (fixed) and autoscaling ({min, max})")
        return self

    @property
    def max_nodes(self) -> int:
        """Most nodes the pool can have."""
        return self.autoscaling.max if self.autoscaling else self.size or 0


class Prometheus(_Model):
    """Who owns the cluster's Managed Prometheus."""

    managed_by: Literal["instance", "addon", "existing"] = "instance"


class MetricsAdapter(_Model):
    """The adapter's release."""

    chart: Text = ADAPTER_CHART
    """URL of a chart, or a path relative to the project."""
    rules: RulePreset = "hardened"
    relist_interval: Annotated[str, AfterValidator(_duration)] = "1m"


class Probe(_Model):
    """A request by which `verify` sees that the service works."""

    path: Annotated[str, Field(pattern="^/")] = "/predict?query=Music"
    answer: Text = "PlayMusic"


class ScalingPolicy(_Model):
    """At most `value` pods, or percent of the pods, more or fewer in `periodSeconds`."""

    type: Literal["Pods", "Percent"]
    value: Count
    period_seconds: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=1800)]


Window = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=3600)]


class ScaleUp(_Model):
    """How fast replicas are added; by default Kubernetes' own documented limits."""

    stabilization_window_seconds: Window = 0
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Pods", value=4, periodSeconds=15),
        ScalingPolicy(type="Percent", value=100, periodSeconds=15),
    ]


class ScaleDown(_Model):
    """How fast replicas are taken away."""

    stabilization_window_seconds: Window = 300
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Percent", value=100, periodSeconds=15)
    ]


class Autoscaler(_Model):
    """The HPA of a service."""

    name: Name | None = None
    """None: `<service>-hpa`."""
    metric: Text = "DCGM_CUSTOM_PROCESS_SM_UTIL"
    target: Annotated[Decimal, BeforeValidator(lambda value: _number(value)), Field(gt=0)] = Decimal(20)
    """Average over the pods, in the metric's unit."""
    min_replicas: Count = 1
    max_replicas: Count = 10
    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaler:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas ({self.min_replicas}) is above maxReplicas ({self.max_replicas})")
        return self


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return Decimal(str(value))
    except ArithmeticError:
        return value


class Service(_Model):
    """An inference service: Deployment, Service of type LoadBalancer, and HPA."""

    name: Name
    namespace: Name = "default"
    image: Text
    container_name: Name = "server"
    container_port: Port = 80
    port: Port = 80
    gpus: Count = 1
    """Whole GPUs of each pod."""
    probe: Probe = Probe()
    autoscaler: Autoscaler = Autoscaler()

    @property
    def autoscaler_name(self) -> str:
        """Name of the HPA."""
        return self.autoscaler.name or f"{self.name}-hpa"


class Settings(_Model):
    """All that a stack can set, under the namespace of the project."""

    region: Region
    cluster: Cluster
    gpu_node_pool: GpuNodePool
    prometheus: Prometheus = Prometheus()
    metrics_adapter: MetricsAdapter = MetricsAdapter()
    services: Annotated[list[Service], Field(min_length=1)]


def parse(values: Mapping[str, Any]) -> Settings:
    """Check a stack's values.

    Args:
        values: key to value, keys without the project's namespace, structured values already decoded.

    Raises:
        SettingsError: with one sentence for each fault.
    """
    try:
        settings = Settings.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError([_sentence(fault) for fault in error.errors()]) from None
    faults = list(_cross_checks(settings))
    if faults:
        raise SettingsError(faults)
    return settings


def _key(location: tuple[int | str, ...]) -> str:
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _sentence(fault: Any) -> str:
    kind, location = fault["type"], fault["loc"]
    key, value = _key(location), fault["input"]
    if kind == "missing":
        return f"{key} is missing: set it."
    if kind == "extra_forbidden":
        allowed = _allowed_keys(location[:-1])
        near = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(allowed)}."
        return f"{key} is no setting: {hint}"
    if kind == "literal_error":
        allowed = [option.strip("'") for option in re.findall(r"'[^']*'", fault["ctx"]["expected"])]
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        return f"{key} is {value!r}: allowed are {', '.join(allowed)}{hint}"
    reason = fault["msg"].removeprefix("Value error, ")
    if kind == "value_error" and isinstance(value, dict):
        return f"{key}: {reason}."
    return f"{key} is {value!r}: {reason[0].lower()}{reason[1:]}."


def _allowed_keys(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Settings
    for part in location:
        if isinstance(part, str):
            field = next(info for info in model.model_fields.values() if info.alias == part)
            model = next(_models(field.annotation))
    return [str(info.alias) for info in model.model_fields.values()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _cross_checks(settings: Settings) -> Iterator[str]:
    yield from _unique(settings)
    yield from _metrics(settings)
    yield from _capacity(settings)


def _unique(settings: Settings) -> Iterator[str]:
    for what, names in (
        ("services", [(service.namespace, service.name) for service in settings.services]),
        ("autoscalers", [(service.namespace, service.autoscaler_name) for service in settings.services]),
    ):
        for (namespace, name), count in Counter(names).items():
            if count > 1:
                yield f"services: {count} {what} are named {namespace}/{name}; give each its own name."


def _metrics(settings: Settings) -> Iterator[str]:
    preset = settings.metrics_adapter.rules
    names = [metric.name for metric in catalogue().metrics]
    for index, service in enumerate(settings.services):
        key = f"services[{index}].autoscaler"
        chosen, target = service.autoscaler.metric, service.autoscaler.target
        metric = catalogue().find(chosen)
        if metric is None:
            near = difflib.get_close_matches(chosen, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(names)}."
            yield f"{key}.metric is {chosen!r}, which no rule exposes: {hint}"
            continue
        if "pods" not in exposed_resources(metric, preset):
            able = [other for other in RULE_PRESETS if "pods" in exposed_resources(metric, other)]
            yield (
                f"{key}.metric is {chosen!r}, which the rules {preset!r} expose for nodes only, and an HPA reads pods: "
                f"set metricsAdapter.rules to {' or '.join(able)}, or choose a DCGM_CUSTOM_ metric."
            )
            continue
        high = Decimal(effective_range(metric, preset)[1])
        if metric.unit == "%" and not metric.ratio:
            high *= service.gpus if metric.aggregation == "sum" else 1
        if target > high:
            unit = metric.unit if metric.range == effective_range(metric, preset) else "of 1"
            yield (
                f"{key}.target is {target}, which {chosen} never reaches: with the rules {preset!r} it is at most "
                f"{high:f} {unit}."
            )


def _capacity(settings: Settings) -> Iterator[str]:
    pool = settings.gpu_node_pool
    known = {name: find_instance_type(name) for name in pool.instance_types}
    per_node = pool.gpus_per_node
    if per_node is None:
        unknown = [name for name, row in known.items() if row is None]
        if unknown:
            yield (
                f"gpuNodePool.instanceTypes has {', '.join(unknown)}, which is not in the table of GPU instance types: "
                "set gpuNodePool.gpusPerNode if it has GPUs, else choose a GPU type (ecs.gn...)."
            )
            return
        counts = {row.gpus for row in known.values() if row}
        if len(counts) > 1:
            yield (
                "gpuNodePool.instanceTypes mixes types with different numbers of GPUs "
                f"({', '.join(f'{count:g}' for count in sorted(counts))}): use types with the same number."
            )
            return
        count = counts.pop()
        if count < 1:
            yield (
                f"gpuNodePool.instanceTypes has {pool.instance_types[0]} with a slice of a GPU ({count:g}), and a pod "
                "asks for whole GPUs: choose a type with at least one."
            )
            return
        per_node = int(count)
    for index, service in enumerate(settings.services):
        if service.gpus > per_node:
            yield f"services[{index}].gpus is {service.gpus}, but a node of the pool has {per_node}: lower it."
            return
    needed = sum(service.autoscaler.max_replicas * service.gpus for service in settings.services)
    offered = pool.max_nodes * per_node
    if needed > offered:
        yield (
            f"services can ask for {needed} GPUs (the sum of maxReplicas x gpus), but gpuNodePool offers at most "
            f"{offered} ({pool.max_nodes} nodes x {per_node}): raise the pool or lower maxReplicas."
        )
