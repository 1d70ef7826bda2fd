"""Whether the nodes' taints, the limits of spot prices and the GPUs that are kept warm make sense for the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autoscaling.ack.placeholders import PLACEHOLDERS_NAMESPACE, placeholder_limits, placeholders_name
from autoscaling.ack.taints import keeping_off, written
from autoscaling.ack.versions import EXPORTER_NAME, EXPORTER_NAMESPACE
from autoscaling.settings.findings import Finding
from autoscaling.settings.gpu_checks import gpus_per_node, most_nodes
from autoscaling.settings.model import GpuNodePool, Settings
from autoscaling.settings.wording import nearest

_TYPES = "gpuNodePool.instanceTypes"
_TAINTS = "gpuNodePool.taints"
_LIMITS = "gpuNodePool.spot.hourlyPriceLimits"
_WARM = "gpuNodePool.warmGpus"
_PER_NODE = "gpuNodePool.gpusPerNode"
_SIZE = "gpuNodePool.size"
_MOST = "gpuNodePool.autoscaling.max"
_CARD_MODE = "gpuNodePool.cardMode"
_PRICES = "budget.hourlyPrices"
_LABELS = "metricsAdapter.labels"
_LONGEST_NAME = 63
"""Of the value of a label, which has the name too."""


def pool_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault and warning of these settings of the pool."""
    yield from _taints(settings)
    yield from _spot(settings.gpu_node_pool)
    if settings.gpu_node_pool.warm_gpus:
        faults = [*_warm(settings.gpu_node_pool), *_name_of_placeholders(settings)]
        yield from faults or [_cost_of_warmth(settings)]


def _name_of_placeholders(settings: Settings) -> Iterator[Finding]:
    name = placeholders_name(settings.gpu_node_pool.name)
    if len(name) > _LONGEST_NAME:
        yield Finding(
            f"gpuNodePool.name has {len(settings.gpu_node_pool.name)} characters, and the placeholders of {_WARM} are "
            f"named {name}, of at most {_LONGEST_NAME}: shorten it.",
            ("gpuNodePool.name", _WARM),
        )
    for index, service in enumerate(settings.services):
        if (service.namespace, service.object_name) == (PLACEHOLDERS_NAMESPACE, name):
            yield Finding(
                f"services[{index}].name is {service.name}, and the placeholders of {_WARM} are Deployment "
                f"{PLACEHOLDERS_NAMESPACE}/{name} already: give the service or the pool another name.",
                (f"services[{index}].name", f"services[{index}].namespace", "gpuNodePool.name", _WARM),
            )


def _taints(settings: Settings) -> Iterator[Finding]:
    taints = settings.gpu_node_pool.taints
    for (key, effect), times in Counter((one.key, one.effect) for one in taints).items():
        if times > 1:
            yield Finding(
                f"{_TAINTS} has {key} with the effect {effect} {times} times, and a node can have it once: leave one.",
                (_TAINTS,),
            )
    # Of another exporter nobody knows here what it tolerates.
    off = keeping_off(taints) if settings.metrics_adapter.labels == "ack" else []
    if off:
        yield Finding(
            f"{_TAINTS} has {', '.join(map(written, off))}, which can keep ACK's GPU exporter off the nodes, and then "
            f"no HPA reads a GPU metric: once Prometheus runs, add the toleration (kubectl edit daemonset -n "
            f"{EXPORTER_NAMESPACE} {EXPORTER_NAME}); make verify says whether it is missing, and how to add it.",
            (_TAINTS, _LABELS),
            "warning",
        )


def _spot(pool: GpuNodePool) -> Iterator[Finding]:
    limits = pool.spot.hourly_price_limits if pool.spot else {}
    if not limits:
        return
    unlimited = [name for name in pool.instance_types if name not in limits]
    strangers = [name for name in limits if name not in pool.instance_types]
    for name in strangers:
        yield Finding(
            f"{_LIMITS} has {name}, which {_TYPES} has not: "
            + (nearest(name, unlimited) if unlimited else "remove it."),
            (f"{_LIMITS}.{name}", _TYPES),
        )
    if unlimited and not strangers:
        yield Finding(
            f"{_LIMITS} has no limit of {', '.join(unlimited)}: add it, or remove all limits, for the market's price.",
            (_LIMITS, _TYPES),
        )


def _warm(pool: GpuNodePool) -> Iterator[Finding]:
    if pool.size is not None:
        yield Finding(
            f"{_WARM} is {pool.warm_gpus}, and {_SIZE} keeps all nodes at any time: remove it, or set autoscaling "
            "instead of size.",
            (_WARM, _SIZE),
        )
        return
    if pool.card_mode == "mig":
        yield Finding(
            f"{_WARM} is {pool.warm_gpus}, and with {_CARD_MODE} mig no pod asks for a whole GPU: remove it.",
            (_WARM, _CARD_MODE),
        )
        return
    if placeholder_limits(pool.card_mode, pool.instance_types) is None:
        yield Finding(
            f"{_WARM} is {pool.warm_gpus}, and with {_CARD_MODE} {pool.card_mode} a placeholder asks for the memory of "
            f"a whole GPU, which the table of instance types lacks for {' or '.join(pool.instance_types)}: remove it, "
            "or choose other types.",
            (_WARM, _CARD_MODE, _TYPES),
        )
        return
    nodes, per_node = most_nodes(pool), gpus_per_node(pool)
    if nodes is not None and per_node is not None and pool.warm_gpus > nodes * per_node:
        yield Finding(
            f"{_WARM} is {pool.warm_gpus}, but gpuNodePool has at most {nodes * per_node} GPUs ({nodes} nodes x "
            f"{per_node}): lower it or raise the pool.",
            (_WARM, _MOST, _TYPES, _PER_NODE),
        )


def _cost_of_warmth(settings: Settings) -> Finding:
    pool, prices = settings.gpu_node_pool, settings.budget.hourly_prices
    per_node = gpus_per_node(pool)
    price = max((prices[name] for name in pool.instance_types if name in prices), default=None)
    if per_node is None:
        cost = f"on how many nodes is not known without {_PER_NODE}"
    else:
        nodes = -(-pool.warm_gpus // per_node)
        cost = f"at least {nodes} node{'' if nodes == 1 else 's'} at any time"
        if price is None:
            cost += f", at a price that is not known without {_PRICES}"
        else:
            cost += f", {nodes * price:f} an hour ({nodes} x {price:f})"
    return Finding(
        f"{_WARM} keeps {pool.warm_gpus} GPU{'' if pool.warm_gpus == 1 else 's'} running with nothing on "
        f"{'it' if pool.warm_gpus == 1 else 'them'}, for replicas that start without waiting for a node: {cost}.",
        (_WARM, _TYPES, _PER_NODE, _PRICES),
        "warning",
    )
