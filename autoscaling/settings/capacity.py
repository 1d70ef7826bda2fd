"""Check that the services fit into the GPU node pool, and the pool into the budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from autoscaling.ack.card_modes import CARD_MODES
from autoscaling.ack.instance_types import InstanceType, find_instance_type, gpu_memory_mib
from autoscaling.quantity import decimal, parse_quantity
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Amount, Count, InstanceTypeName, Model
from autoscaling.settings.gpu_node_pool import GpuNodePool
from autoscaling.settings.services import Service
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_MAX_GPUS = "budget.maxGpus"
_MAX_COST = "budget.maxHourlyCost"
_PRICES = "budget.hourlyPrices"
_FIELDS = {"gpus": "gpus", "gpuMemoryGiB": "gpu_memory_gib", "gpuCorePercent": "gpu_core_percent"}
_UNITS = {"gpus": "GPUs", "gpuMemoryGiB": "GiB of GPU memory", "gpuCorePercent": "percent of GPU compute"}
_BOTH = ("gpuNodePool", "services")
_CARD_MODE = "gpuNodePool.cardMode"
_WITH_MIG = re.compile(r"NVIDIA (A30|A100|H20|H100|H200|B200|GB200)\b|Blackwell")
"""From https://docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html (2026). The page lists some
Blackwell cards; no source names the exact models in the table of instance types."""


class Budget(Model):
    """Limits of the stack; a preview that exceeds a limit fails."""

    max_gpus: Count | None = None
    """Maximum number of GPUs of the node pool."""
    max_hourly_cost: Amount | None = None
    """Maximum hourly cost of the GPU nodes, in the currency of `hourlyPrices`."""
    hourly_prices: dict[InstanceTypeName, Amount] = {}
    """Hourly price of a node, by instance type; the program does not know any prices."""


def budget_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error of the budget."""
    # The maximum cost depends on the pool's limit, whichever pods make the pool grow.
    nodes = settings.gpu_node_pool.max_nodes
    if nodes is None:
        return
    for sentence in (*_gpus(settings, nodes), *_cost(settings, nodes)):
        yield Finding(sentence, ("budget", "gpuNodePool"))


def _gpus(settings: Settings, nodes: int) -> Iterator[str]:
    pool, most = settings.gpu_node_pool, settings.budget.max_gpus
    if most is None:
        return
    if pool.node_gpus is None:
        yield (
            f"{_MAX_GPUS} is {most}, but the number of GPUs of {', '.join(pool.instance_types)} is unknown: set "
            "gpuNodePool.gpusPerNode."
        )
    elif nodes * pool.node_gpus > most:
        yield (
            f"{_MAX_GPUS} is {most}, but gpuNodePool can grow to {nodes * pool.node_gpus} GPUs ({nodes} nodes x "
            f"{pool.node_gpus} of {' or '.join(pool.instance_types)}): make the pool smaller or raise maxGpus."
        )


def _cost(settings: Settings, nodes: int) -> Iterator[str]:
    types, budget = settings.gpu_node_pool.instance_types, settings.budget
    prices, most = budget.hourly_prices, budget.max_hourly_cost
    unpriced = [name for name in types if name not in prices]
    for name in prices:
        if name not in types:
            yield (
                f"{_PRICES} lists {name}, which is not in gpuNodePool.instanceTypes: "
                f"{nearest(name, unpriced) if unpriced else 'remove it.'}"
            )
    if most is None:
        if prices:
            yield f"{_PRICES} is set, but {_MAX_COST} is not: set {_MAX_COST}, or remove {_PRICES}."
    elif unpriced:
        yield (f"{_MAX_COST} is {most:f}, but {_PRICES} has no price for {', '.join(unpriced)}: add the price.")
    else:
        dearest = max(types, key=lambda name: prices[name])
        cost = nodes * prices[dearest]
        if cost > most:
            yield (
                f"{_MAX_COST} is {most:f}, but gpuNodePool can cost {cost:f} an hour ({nodes} nodes x "
                f"{prices[dearest]:f} of {dearest}): make the pool smaller or raise "
                "maxHourlyCost."
            )


def capacity_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning about the resources that services request from the pool."""
    pool = settings.gpu_node_pool
    asked = [sentence for index, service in enumerate(settings.services) for sentence in _asked(service, index, pool)]
    for sentence in asked or _cards(settings):
        yield Finding(sentence, _BOTH)
    if not asked and pool.card_mode == "mig":
        for warning in _unchecked_mig(pool):
            yield Finding(warning, ("gpuNodePool",), "warning")
    for index, service in enumerate(settings.services):
        yield from _room(service, f"services[{index}]", pool)


def _asked(service: Service, index: int, pool: GpuNodePool) -> Iterator[str]:
    wanted = CARD_MODES[pool.card_mode].asks_for
    given = {str(type(service).model_fields[field].alias) for field in service.model_fields_set}
    for alias in sorted({alias for mode in CARD_MODES.values() for alias in mode.asks_for}):
        key = f"services[{index}].{alias}"
        if alias in given and alias not in wanted:
            yield (
                f"{key} can't be set when {_CARD_MODE} is {pool.card_mode}: remove it, and use {' and '.join(wanted)} "
                "instead."
            )
        elif alias in wanted and alias not in given and alias != "gpus":
            yield f"{key} is missing: set it, because {_CARD_MODE} is {pool.card_mode}."


def _unchecked_mig(pool: GpuNodePool) -> Iterator[str]:
    yield (
        f"{_CARD_MODE} is mig, but the settings do not list the MIG instances of each card: check yourself that the "
        "services fit into the pool."
    )
    for name in pool.instance_types:
        row = find_instance_type(name)
        if row and not _WITH_MIG.search(row.gpu_model):
            yield (
                f"{_CARD_MODE} is mig, but {name} has {row.gpu_model}, which NVIDIA's guide to MIG does not list: "
                "choose a type with A30, A100, H20 or newer, or set another cardMode."
            )


def _cards(settings: Settings) -> Iterator[str]:
    pool = settings.gpu_node_pool
    per_node, nodes = pool.node_gpus, pool.max_nodes
    if per_node is None or pool.card_mode == "mig":
        return
    if pool.card_mode == "exclusive":
        whole = f"{nodes} nodes x {per_node}"
        yield from _share(settings, "gpus", "GPUs", per_node, nodes, whole, f"{whole} GPUs")
        return
    mib = gpu_memory_mib(pool.instance_types)
    cards = nodes and nodes * per_node
    for alias, unit, have in (
        ("gpuMemoryGiB", "GiB", mib // 1024 if mib else None),
        ("gpuCorePercent", "percent", 100),
    ):
        if have:
            parts = f"{nodes} nodes x {per_node} cards x {have}"
            yield from _share(settings, alias, unit, have, cards, parts, f"{parts} {unit}")


def _share(
    settings: Settings, alias: str, unit: str, have: int, holders: int | None, offered: str, held: str
) -> Iterator[str]:
    """Compare the services' requests with the capacity of each holder: a node, or a card."""
    whole = alias == "gpus"
    asked = [getattr(service, _FIELDS[alias]) or 0 for service in settings.services]
    too_large = [index for index, share in enumerate(asked) if share > have]
    for index in too_large:
        holder = f"node of the pool has only {have}" if whole else f"card of the pool has only {have} {unit}"
        yield f"services[{index}].{alias} is {asked[index]}, but a {holder}: lower {alias}."
    if too_large or holders is None:
        return
    most_replicas = [service.autoscaler.max_replicas for service in settings.services]
    needed = sum(replicas * share for replicas, share in zip(most_replicas, asked, strict=True))
    if needed > holders * have:
        yield (
            f"services can request {needed} {_UNITS[alias]} (the sum of maxReplicas x {alias}), but gpuNodePool has at "
            f"most {holders * have} ({offered}): make the pool larger or lower maxReplicas."
        )
        return
    why = "all GPUs of a pod must be on one node" if whole else "a pod must fit on one card"
    for index, (replicas, share) in enumerate(zip(most_replicas, asked, strict=True)):
        if share and replicas > (most := holders * (have // share)):
            yield (
                f"services[{index}].autoscaler.maxReplicas is {replicas}, but {alias} is {share} and {why}. {held} "
                f"have room for {most} pods: make the pool larger or lower maxReplicas."
            )


def _room(service: Service, key: str, pool: GpuNodePool) -> Iterator[Finding]:
    rows = [find_instance_type(name) for name in pool.instance_types]
    pods, nodes, most = _pods_of_a_node(service, pool), pool.max_nodes, service.autoscaler.max_replicas
    for name, text in service.requests.items():
        offers = [_offer(name, row) for row in rows if row]
        asked = parse_quantity(text) / (2**30 if name == "memory" else 1)
        if len(offers) < len(rows) or not all(offers) or not asked:
            continue
        least, largest = min(offers), max(offers)
        unit = "vCPUs" if name == "cpu" else "GiB"
        if asked > largest:
            yield Finding(
                f"{key}.{name} is {text}, but a node of the pool has only {largest:f} {unit}: lower {name}.", _BOTH
            )
        elif pods and nodes and nodes * int(largest // asked) < min(most, nodes * pods):
            held = int(largest // asked)
            yield Finding(
                f"{key}.{name} is {text}: a node of the pool ({largest:f} {unit}) has room for {held} of these "
                f"pods, so {nodes} nodes have room for {nodes * held}. maxReplicas is {most}: lower {name} or "
                "maxReplicas, or make the pool larger.",
                _BOTH,
            )
        elif pods and asked * pods > least:
            yield Finding(
                f"{key}.{name} is {text}: a node's GPUs fit {pods} of these pods. Together the pods request "
                f"{decimal(asked * pods)} {unit}, but the smallest node has {least:f}. Some GPUs would stay unused: "
                f"lower {name}.",
                _BOTH,
                "warning",
            )


def _pods_of_a_node(service: Service, pool: GpuNodePool) -> int | None:
    """Return how many pods fit on the GPUs of a node, or None if unknown."""
    cards = pool.node_gpus
    if cards is None or pool.card_mode == "mig":
        return None
    if pool.card_mode == "exclusive":
        return cards // service.gpus
    card = gpu_memory_mib(pool.instance_types)
    return cards * (card // 1024 // service.gpu_memory_gib) if card and service.gpu_memory_gib else None


def _offer(name: str, row: InstanceType) -> Decimal:
    """Return a node's vCPUs or its memory in GiB, including what is reserved for the system; 0 if unknown."""
    return Decimal(str(row.vcpus if name == "cpu" else row.memory_gib)).normalize()
