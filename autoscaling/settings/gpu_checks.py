"""Whether the node pool is one that ACK can make, and whether the services and the budget fit it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from autoscaling.ack.card_modes import CARD_MODES
from autoscaling.ack.instance_types import find_instance_type, gpu_memory_mib, has_gpus
from autoscaling.settings.findings import Finding
from autoscaling.settings.model import GpuNodePool, Service, Settings
from autoscaling.settings.wording import nearest

_TYPES = "gpuNodePool.instanceTypes"
_PER_NODE = "gpuNodePool.gpusPerNode"
_CARD_MODE = "gpuNodePool.cardMode"
_POOL_SIZE = ("gpuNodePool.size", "gpuNodePool.autoscaling")
_MAX_GPUS = "budget.maxGpus"
_MAX_COST = "budget.maxHourlyCost"
_PRICES = "budget.hourlyPrices"
_WITH_MIG = re.compile(r"NVIDIA (A30|A100|H20|H100|H200|B200|GB200)\b|Blackwell")
"""https://docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html (2026); it has some
Blackwell cards, and no source names the models of the table's."""


def gpu_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault and warning of the pool, of what the services ask of it, and of the budget."""
    pool = settings.gpu_node_pool
    yield from _pool_size(pool)
    yield from _instance_types(pool)
    yield from _zones(pool)
    asked = [finding for index, service in enumerate(settings.services) for finding in _asked(service, index, pool)]
    yield from asked
    if not asked:
        yield from _capacity(settings)
    yield from _budget(settings)


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
        if row is None:
            yield from _unknown_type(name, pool)
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


def _unknown_type(name: str, pool: GpuNodePool) -> Iterator[Finding]:
    if not has_gpus(name):
        yield Finding(f"{_TYPES} has {name}, which has no GPU: choose a GPU type (ecs.gn...).", (_TYPES,))
    elif pool.gpus_per_node is None:
        yield Finding(
            f"{_TYPES} has {name}, which is not in the table of GPU instance types, so that its GPUs can't be counted: "
            f"set {_PER_NODE}.",
            (_TYPES, _PER_NODE),
            "warning",
        )


def _zones(pool: GpuNodePool) -> Iterator[Finding]:
    if len(pool.instance_types) == 1 and pool.vswitch_ids and len(pool.vswitch_ids) == 1:
        yield Finding(
            f"gpuNodePool has one type in one zone ({pool.instance_types[0]} in {pool.vswitch_ids[0]}): where it is "
            "sold out, no node comes; add a type or a vSwitch of another zone.",
            (_TYPES, "gpuNodePool.vswitchIds"),
            "warning",
        )


def _asked(service: Service, index: int, pool: GpuNodePool) -> Iterator[Finding]:
    wanted = CARD_MODES[pool.card_mode].asks_for
    given = {str(type(service).model_fields[field].alias) for field in service.model_fields_set}
    for alias in sorted({one for mode in CARD_MODES.values() for one in mode.asks_for}):
        key = f"services[{index}].{alias}"
        if alias in given and alias not in wanted:
            yield Finding(
                f"{key} can't be set with {_CARD_MODE} {pool.card_mode}, where a pod asks by {' and '.join(wanted)}: "
                "remove it.",
                (key, _CARD_MODE),
            )
        elif alias in wanted and alias not in given and alias != "gpus":
            yield Finding(f"{key} is missing: with {_CARD_MODE} {pool.card_mode} set it.", (key, _CARD_MODE))


def gpus_per_node(pool: GpuNodePool) -> int | None:
    """GPUs of each node; None where the instance types don't agree on a number, or the table lacks one."""
    if pool.gpus_per_node is not None:
        return pool.gpus_per_node
    rows = [find_instance_type(name) for name in pool.instance_types]
    counts = {row.gpus if row else 0 for row in rows}
    count = counts.pop() if len(counts) == 1 else 0
    return int(count) if count >= 1 else None


def most_nodes(pool: GpuNodePool) -> int | None:
    """To which the pool can grow; None where the settings contradict each other."""
    if (pool.size is None) == (pool.autoscaling is None):
        return None
    return pool.autoscaling.max if pool.autoscaling else pool.size


def _capacity(settings: Settings) -> Iterator[Finding]:
    pool = settings.gpu_node_pool
    per_node = gpus_per_node(pool)
    if pool.card_mode == "mig":
        yield Finding(
            f"{_CARD_MODE} is mig, and how many instances of which kind a card is cut into is not known here: whether "
            "the services fit the pool is not checked.",
            (_CARD_MODE,),
            "warning",
        )
        yield from _without_mig(pool)
        return
    if per_node is None:
        return
    if pool.card_mode == "exclusive":
        yield from _whole_cards(settings, per_node)
    else:
        yield from _shared_cards(settings, per_node)


def _without_mig(pool: GpuNodePool) -> Iterator[Finding]:
    for name in pool.instance_types:
        row = find_instance_type(name)
        if row and not _WITH_MIG.search(row.gpu_model):
            yield Finding(
                f"{_CARD_MODE} is mig, and {name} has {row.gpu_model}, which NVIDIA's guide to MIG does not list: "
                "choose a type with A30, A100, H20 or newer, or another cardMode.",
                (_CARD_MODE, _TYPES),
                "warning",
            )


def _whole_cards(settings: Settings, per_node: int) -> Iterator[Finding]:
    read = (_TYPES, _PER_NODE)
    too_large = [index for index, service in enumerate(settings.services) if service.gpus > per_node]
    for index in too_large:
        gpus = settings.services[index].gpus
        yield Finding(
            f"services[{index}].gpus is {gpus}, but a node of the pool has {per_node}: lower it.",
            (*read, f"services[{index}].gpus"),
        )
    nodes = most_nodes(settings.gpu_node_pool)
    if too_large or nodes is None:
        return
    needed = sum(service.autoscaler.max_replicas * service.gpus for service in settings.services)
    if needed > nodes * per_node:
        yield Finding(
            f"services can ask for {needed} GPUs (the sum of maxReplicas x gpus), but gpuNodePool offers at most "
            f"{nodes * per_node} ({nodes} nodes x {per_node}): raise the pool or lower maxReplicas.",
            (*read, *_POOL_SIZE, *_demand(settings.services, "gpus")),
        )
        return
    for index, service in enumerate(settings.services):
        most = nodes * (per_node // service.gpus)
        if service.autoscaler.max_replicas > most:
            yield _too_many(
                index,
                service,
                f"gpus is {service.gpus} and a pod has all its GPUs on one node: {nodes} nodes x {per_node} GPUs take "
                f"{most}",
                (*read, *_POOL_SIZE, f"services[{index}].gpus"),
            )


def _shared_cards(settings: Settings, per_node: int) -> Iterator[Finding]:
    pool = settings.gpu_node_pool
    mib = gpu_memory_mib(pool.instance_types)
    card = mib // 1024 if mib else None
    read = (_TYPES, _PER_NODE, _CARD_MODE)
    for index, service in enumerate(settings.services):
        if card and (service.gpu_memory_gib or 0) > card:
            yield Finding(
                f"services[{index}].gpuMemoryGiB is {service.gpu_memory_gib}, but a card of the pool has {card} GiB: "
                "lower it.",
                (*read, f"services[{index}].gpuMemoryGiB"),
            )
            return
    nodes = most_nodes(pool)
    if nodes is None:
        return
    for alias, field, unit, have in (
        ("gpuMemoryGiB", "gpu_memory_gib", "GiB", card),
        ("gpuCorePercent", "gpu_core_percent", "percent", 100),
    ):
        needed = sum(service.autoscaler.max_replicas * (getattr(service, field) or 0) for service in settings.services)
        if have and needed > nodes * per_node * have:
            yield Finding(
                f"services can ask for {needed} {unit} of GPUs (the sum of maxReplicas x {alias}), but gpuNodePool "
                f"offers at most {nodes * per_node * have} ({nodes} nodes x {per_node} cards x {have}): raise the pool "
                "or lower maxReplicas.",
                (*read, *_POOL_SIZE, *_demand(settings.services, alias)),
            )
            continue
        for index, service in enumerate(settings.services):
            asked = getattr(service, field)
            most = nodes * per_node * (have // asked) if have and asked else None
            if most is not None and service.autoscaler.max_replicas > most:
                yield _too_many(
                    index,
                    service,
                    f"{alias} is {asked} and a pod has its share on one card: {nodes} nodes x {per_node} cards x "
                    f"{have} {unit} take {most}",
                    (*read, *_POOL_SIZE, f"services[{index}].{alias}"),
                )


def _too_many(index: int, service: Service, why: str, keys: tuple[str, ...]) -> Finding:
    key = f"services[{index}].autoscaler.maxReplicas"
    return Finding(
        f"{key} is {service.autoscaler.max_replicas}, but {why}: raise the pool or lower maxReplicas.", (*keys, key)
    )


def _demand(services: Sequence[Service], alias: str) -> list[str]:
    return [f"services[{index}].{key}" for index in range(len(services)) for key in (alias, "autoscaler.maxReplicas")]


def _budget(settings: Settings) -> Iterator[Finding]:
    # What the pool may grow to is what is paid for, whichever service or placeholder made it grow.
    pool, budget = settings.gpu_node_pool, settings.budget
    nodes = most_nodes(pool)
    if nodes is None:
        return
    if budget.max_gpus is not None:
        per_node = gpus_per_node(pool)
        if per_node is None:
            yield Finding(
                f"{_MAX_GPUS} is {budget.max_gpus}, and the GPUs of {', '.join(pool.instance_types)} can't be counted: "
                f"set {_PER_NODE}.",
                (_MAX_GPUS, _TYPES, _PER_NODE),
            )
        elif nodes * per_node > budget.max_gpus:
            yield Finding(
                f"{_MAX_GPUS} is {budget.max_gpus}, but gpuNodePool can grow to {nodes * per_node} GPUs ({nodes} nodes "
                f"x {per_node} of {' or '.join(pool.instance_types)}): lower the pool or raise maxGpus.",
                (_MAX_GPUS, _TYPES, _PER_NODE, *_POOL_SIZE),
            )
    yield from _cost(settings, nodes)


def _cost(settings: Settings, nodes: int) -> Iterator[Finding]:
    types, budget = settings.gpu_node_pool.instance_types, settings.budget
    unpriced = [name for name in types if name not in budget.hourly_prices]
    for name in budget.hourly_prices:
        if name not in types:
            yield Finding(
                f"{_PRICES} has {name}, which {_TYPES} has not: "
                + (nearest(name, unpriced) if unpriced else "remove it."),
                (f"{_PRICES}.{name}", _TYPES),
            )
    if budget.max_hourly_cost is None:
        if budget.hourly_prices:
            yield Finding(
                f"{_PRICES} is set, and {_MAX_COST} is not: set it, or remove the prices.", (_PRICES, _MAX_COST)
            )
        return
    if unpriced:
        yield Finding(
            f"{_MAX_COST} is {budget.max_hourly_cost:f}, and {_PRICES} has no price of {', '.join(unpriced)}: add it, "
            "since no price is guessed.",
            (_MAX_COST, _PRICES, _TYPES),
        )
        return
    dearest = max(types, key=lambda name: budget.hourly_prices[name])
    cost: Decimal = nodes * budget.hourly_prices[dearest]
    if cost > budget.max_hourly_cost:
        yield Finding(
            f"{_MAX_COST} is {budget.max_hourly_cost:f}, but gpuNodePool can cost {cost:f} an hour ({nodes} nodes x "
            f"{budget.hourly_prices[dearest]:f} of {dearest}): lower the pool or raise maxHourlyCost.",
            (_MAX_COST, _PRICES, _TYPES, *_POOL_SIZE),
        )
