"""The GPU node pool: its settings, and the checks on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from autoscaling.ack.card_modes import CardModeName
from autoscaling.ack.instance_types import find_instance_type, has_gpus
from autoscaling.ack.placeholders import PLACEHOLDERS_NAMESPACE, placeholder_limits, placeholders_name
from autoscaling.ack.taints import blocking_taints, format_taint
from autoscaling.ack.versions import EXPORTER_NAME, EXPORTER_NAMESPACE
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import (
    Amount,
    Count,
    Form,
    Identifier,
    InstanceTypeName,
    Int,
    Model,
    Name,
    NodeCount,
    VSwitchId,
)
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_TYPES = "gpuNodePool.instanceTypes"
_TAINTS = "gpuNodePool.taints"
_LIMITS = "gpuNodePool.spot.hourlyPriceLimits"
_WARM = "gpuNodePool.warmGpus"
_PER_NODE = "gpuNodePool.gpusPerNode"
_CARD_MODE = "gpuNodePool.cardMode"
_LONGEST_LABEL = 63
"""Kubernetes' limit of a label's value."""

_DRIVER_VERSION = Form(r"[0-9]{3}(\.[0-9]{1,3}){1,2}", "must be a driver version, such as 550.144.03")
_TAINT_KEY = Form(
    r"((?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    "must be the key of a taint, such as gpu or example.com/gpu",
)
_LABEL_VALUE = Form(
    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
    "must have at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
)


class PoolLimits(Model):
    """Limits of the pool's autoscaler."""

    min: Annotated[Int, Field(ge=0, le=1000)] = 0
    """Minimum number of nodes."""
    max: NodeCount
    """Maximum number of nodes."""


class SystemDisk(Model):
    """System disk of each node."""

    category: Literal["cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto"] = "cloud_essd"
    """Kind of disk."""
    size_gib: Annotated[Int, Field(ge=40, le=500, alias="sizeGiB")] = 120
    """Size of the disk, in GiB."""


class Taint(Model):
    """A taint, which keeps pods without a toleration off the nodes."""

    key: Annotated[str, _TAINT_KEY]
    """Key of the taint."""
    value: Annotated[str, _LABEL_VALUE] = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What happens to pods that do not tolerate the taint."""


class Spot(Model):
    """Spot instances: cheaper, but ECS reclaims them with five minutes' notice."""

    hourly_price_limits: dict[InstanceTypeName, Amount] = {}
    """Maximum hourly price of a node, by instance type, in the account's currency. By default a node costs the market
    price, at most the pay-as-you-go price."""


class GpuNodePool(Model):
    """The pool of GPU nodes: a fixed size, or limits for its autoscaler."""

    name: Name = "gpu"
    """Name of the pool."""
    instance_types: Annotated[list[InstanceTypeName], Field(min_length=1, max_length=10)]
    """GPU instance types, all with the same number of GPUs; at most 10."""
    vswitch_ids: Annotated[list[VSwitchId] | None, Field(min_length=1)] = None
    """vSwitches of the nodes; by default the cluster's own."""
    size: NodeCount | None = None
    """A fixed number of nodes, instead of `autoscaling`."""
    autoscaling: PoolLimits | None = None
    """Limits for the pool's autoscaler, instead of `size`."""
    gpus_per_node: Count | None = None
    """Number of GPUs of a node, for instance types that the program does not know."""
    card_mode: CardModeName = "exclusive"
    """What each pod gets: whole cards (`exclusive`), part of a card's memory (`cgpu`, or `share` without isolation),
    part of a card's memory and computing power (`core_mem`), or MIG instances (`mig`)."""
    system_disk: SystemDisk = SystemDisk()
    taints: list[Taint] = []
    """Taints of the nodes; the services' pods tolerate them."""
    driver_version: Annotated[str, _DRIVER_VERSION] | None = None
    """NVIDIA driver version of the nodes, such as 550.144.03; by default ACK's version for the instance type."""
    key_name: Identifier | None = None
    """SSH key pair of the nodes. By default the nodes have none, so nobody can log in."""
    spot: Spot | None = None
    """Use spot instances; `{}` accepts the market price. By default nodes are pay-as-you-go."""
    warm_gpus: Annotated[Int, Field(ge=0, le=1000)] = 0
    """Number of idle GPUs kept running by low-priority placeholder pods, which real replicas preempt. Idle GPUs cost as
    much as used GPUs."""
    adopted: bool = False
    """Whether the pool existed before the stack; `./ackgpu adopt` sets this to true. The pool stays when the stack is
    destroyed."""
    retain_on_delete: bool = False
    """Keep the pool when the stack is destroyed."""

    @property
    def node_gpus(self) -> int | None:
        """GPUs of each node; None if the instance types differ, or if the program does not know them."""
        if self.gpus_per_node is not None:
            return self.gpus_per_node
        rows = [find_instance_type(name) for name in self.instance_types]
        counts = {row.gpus if row else 0 for row in rows}
        count = counts.pop() if len(counts) == 1 else 0
        return int(count) if count >= 1 else None

    @property
    def max_nodes(self) -> int | None:
        """The largest number of nodes; None if the settings contradict each other."""
        if (self.size is None) == (self.autoscaling is None):
            return None
        return self.autoscaling.max if self.autoscaling else self.size


def pool_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of the pool."""
    pool = settings.gpu_node_pool
    warm_errors = list(_warm_gpus(pool)) if pool.warm_gpus else []
    for errors in (_size(pool), _instance_types(pool), _taints(pool), _spot(pool), warm_errors):
        for sentence in errors:
            yield Finding(sentence, ("gpuNodePool",))
    for warning in _warnings(pool):
        yield Finding(warning, ("gpuNodePool",), "warning")
    yield from _exporter_kept_off(settings)
    if pool.warm_gpus:
        taken = list(_taken_name(settings))
        yield from taken
        if not warm_errors and not taken:
            yield _cost_of_warm_gpus(settings)


def _size(pool: GpuNodePool) -> Iterator[str]:
    if (pool.size is None) == (pool.autoscaling is None):
        yield "gpuNodePool: set exactly one of size (a fixed number of nodes) or autoscaling (min and max)."
    limits = pool.autoscaling
    if limits and limits.min > limits.max:
        yield f"gpuNodePool.autoscaling.min is {limits.min}, above max ({limits.max}): lower min or raise max."


def _instance_types(pool: GpuNodePool) -> Iterator[str]:
    counts = set()
    for name in pool.instance_types:
        row = find_instance_type(name)
        if row is None:
            if not has_gpus(name):
                yield f"{_TYPES} lists {name}, which has no GPU: choose a type such as ecs.gn6i-c4g1.xlarge."
            continue
        if row.gpus >= 1:
            counts.add(row.gpus)
        if not row.usable_on_ack:
            yield f"{_TYPES} lists {name}, which ACK does not support: choose a type without -tee."
        elif row.gpus < 1:
            yield (
                f"{_TYPES} lists {name}, which has only part of a GPU ({row.gpus:g}), but pods request whole GPUs: "
                "choose a type with at least one GPU."
            )
        elif row.gpus_documented and pool.gpus_per_node not in (None, row.gpus):
            yield (
                f"{_PER_NODE} is {pool.gpus_per_node}, but {name} has {row.gpus:g}: remove gpusPerNode, which is only "
                "for types that the program does not know."
            )
    if len(counts) > 1 and pool.gpus_per_node is None:
        yield (
            f"{_TYPES} mixes types with different numbers of GPUs ({', '.join(f'{gpus:g}' for gpus in sorted(counts))}"
            "): use types with the same number."
        )


def _taints(pool: GpuNodePool) -> Iterator[str]:
    for (key, effect), times in Counter((taint.key, taint.effect) for taint in pool.taints).items():
        if times > 1:
            yield (
                f"{_TAINTS} lists the key {key} with the effect {effect} {times} times, but a node can have this taint "
                "only once: keep one of them."
            )


def _spot(pool: GpuNodePool) -> Iterator[str]:
    limits = pool.spot.hourly_price_limits if pool.spot else {}
    unlimited = [name for name in pool.instance_types if name not in limits]
    unused = [name for name in limits if name not in pool.instance_types]
    for name in unused:
        meant = nearest(name, unlimited) if unlimited else "remove it."
        yield f"{_LIMITS} lists {name}, which is not in {_TYPES}: {meant}"
    if limits and unlimited and not unused:
        yield f"{_LIMITS} has no limit for {', '.join(unlimited)}: add a limit, or remove all limits."


def _warm_gpus(pool: GpuNodePool) -> Iterator[str]:
    nodes, per_node = pool.max_nodes, pool.node_gpus
    if pool.size is not None:
        yield (
            f"{_WARM} is {pool.warm_gpus}, but with gpuNodePool.size all nodes are always running: remove warmGpus, "
            "or replace size with autoscaling."
        )
    elif pool.card_mode == "mig":
        yield (
            f"{_WARM} is {pool.warm_gpus}, but with {_CARD_MODE} set to mig, pods do not request whole GPUs: remove "
            "warmGpus."
        )
    elif placeholder_limits(pool.card_mode, pool.instance_types) is None:
        yield (
            f"{_WARM} is {pool.warm_gpus}, but with {_CARD_MODE} set to {pool.card_mode}, a placeholder requests the "
            f"memory of a whole GPU. The program does not know this memory for {' or '.join(pool.instance_types)}: "
            "remove warmGpus, or choose other types."
        )
    elif nodes is not None and per_node is not None and pool.warm_gpus > nodes * per_node:
        yield (
            f"{_WARM} is {pool.warm_gpus}, but gpuNodePool has at most {nodes * per_node} GPUs ({nodes} nodes x "
            f"{per_node}): lower warmGpus or make the pool larger."
        )
    name = placeholders_name(pool.name)
    if len(name) > _LONGEST_LABEL:
        yield (
            f"gpuNodePool.name has {len(pool.name)} characters, so the placeholders of {_WARM} would be named {name}, "
            f"which is longer than {_LONGEST_LABEL} characters: shorten the pool's name."
        )


def _warnings(pool: GpuNodePool) -> Iterator[str]:
    for name in pool.instance_types:
        if find_instance_type(name) is None and has_gpus(name) and pool.gpus_per_node is None:
            yield (
                f"{_TYPES} lists {name}, which the program does not know, so the number of its GPUs is unknown: set "
                f"{_PER_NODE}."
            )
    if len(pool.instance_types) == 1 and pool.vswitch_ids and len(pool.vswitch_ids) == 1:
        yield (
            f"gpuNodePool has one instance type in one zone ({pool.instance_types[0]} in {pool.vswitch_ids[0]}). If "
            "that type is sold out in that zone, the pool can't grow: add a type, or a vSwitch in another zone."
        )


def _exporter_kept_off(settings: Settings) -> Iterator[Finding]:
    # The tolerations of other exporters are unknown.
    off = blocking_taints(settings.gpu_node_pool.taints) if settings.metrics_adapter.labels == "ack" else []
    if off:
        yield Finding(
            f"{_TAINTS} has {', '.join(map(format_taint, off))}, which can keep ACK's GPU exporter off the nodes, so "
            "that HPAs can't read GPU metrics. Once Prometheus runs, add a toleration for each taint with `kubectl "
            f"edit daemonset -n {EXPORTER_NAMESPACE} {EXPORTER_NAME}`. `./ackgpu verify` reports a missing toleration.",
            ("gpuNodePool", "metricsAdapter"),
            "warning",
        )


def _taken_name(settings: Settings) -> Iterator[Finding]:
    name = placeholders_name(settings.gpu_node_pool.name)
    for index, service in enumerate(settings.services):
        if (service.namespace, service.object_name) == (PLACEHOLDERS_NAMESPACE, name):
            yield Finding(
                f"services[{index}].name is {service.name}, but {_WARM} uses the Deployment "
                f"{PLACEHOLDERS_NAMESPACE}/{name} for its placeholder pods: rename the service or the pool.",
                ("gpuNodePool", "services"),
            )


def _cost_of_warm_gpus(settings: Settings) -> Finding:
    pool, prices = settings.gpu_node_pool, settings.budget.hourly_prices
    price = max((prices[name] for name in pool.instance_types if name in prices), default=None)
    if pool.node_gpus is None:
        cost = f"unknown without {_PER_NODE}"
    else:
        nodes = -(-pool.warm_gpus // pool.node_gpus)
        cost = f"at least {nodes} node{'' if nodes == 1 else 's'} at all times, " + (
            "at an unknown price without budget.hourlyPrices"
            if price is None
            else f"{nodes * price:f} an hour ({nodes} x {price:f})"
        )
    plural = "" if pool.warm_gpus == 1 else "s"
    return Finding(
        f"{_WARM} keeps {pool.warm_gpus} idle GPU{plural} running so that new replicas start without "
        f"waiting for a node. Cost: {cost}.",
        ("gpuNodePool", "budget"),
        "warning",
    )
