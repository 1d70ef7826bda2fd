"""Whether the services fit into the GPU node pool, and the pool into the budget."""

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
_BOTH = ("gpuNodePool", "services")
_CARD_MODE = "gpuNodePool.cardMode"
_WITH_MIG = re.compile(r"NVIDIA (A30|A100|H20|H100|H200|B200|GB200)\b|Blackwell")
"""https://docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html (2026); it has some
Blackwell cards, and no source names the models of the table's."""


class Budget(Model):
    """Limits of the stack; a preview above them is refused."""

    max_gpus: Count | None = None
    """Maximum number of GPUs of the node pool."""
    max_hourly_cost: Amount | None = None
    """Maximum cost of the GPU nodes an hour, in the currency of `hourlyPrices`."""
    hourly_prices: dict[InstanceTypeName, Amount] = {}
    """Price of a node an hour by instance type; no price is guessed."""


def budget_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error of the budget."""
    # The pool's limit is what is paid for, whichever service or placeholder makes the pool grow.
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
            f"{_MAX_GPUS} is {most}, and the GPUs of {', '.join(pool.instance_types)} can't be counted: set "
            "gpuNodePool.gpusPerNode."
        )
    elif nodes * pool.node_gpus > most:
        yield (
            f"{_MAX_GPUS} is {most}, but gpuNodePool can grow to {nodes * pool.node_gpus} GPUs ({nodes} nodes x "
            f"{pool.node_gpus} of {' or '.join(pool.instance_types)}): lower the pool or raise maxGpus."
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
            yield f"{_PRICES} is set, and {_MAX_COST} is not: set it, or remove the prices."
    elif unpriced:
        yield (
            f"{_MAX_COST} is {most:f}, and {_PRICES} has no price of {', '.join(unpriced)}: add it, since no price is "
            "guessed."
        )
    else:
        dearest = max(types, key=lambda name: prices[name])
        cost = nodes * prices[dearest]
        if cost > most:
            yield (
                f"{_MAX_COST} is {most:f}, but gpuNodePool can cost {cost:f} an hour ({nodes} nodes x "
                f"{prices[dearest]:f} of {dearest}): lower the pool or raise maxHourlyCost."
            )


def capacity_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of what the services ask of the pool."""
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
                f"{key} can't be set with {_CARD_MODE} {pool.card_mode}, where a pod asks by {' and '.join(wanted)}: "
                "remove it."
            )
        elif alias in wanted and alias not in given and alias != "gpus":
            yield f"{key} is missing: with {_CARD_MODE} {pool.card_mode} set it."


def _unchecked_mig(pool: GpuNodePool) -> Iterator[str]:
    yield (
        f"{_CARD_MODE} is mig, and how many instances of which kind a card is cut into is not known here: whether the "
        "services fit the pool is not checked."
    )
    for name in pool.instance_types:
        row = find_instance_type(name)
        if row and not _WITH_MIG.search(row.gpu_model):
            yield (
                f"{_CARD_MODE} is mig, and {name} has {row.gpu_model}, which NVIDIA's guide to MIG does not list: "
                "choose a type with A30, A100, H20 or newer, or another cardMode."
            )


def _cards(settings: Settings) -> Iterator[str]:
    pool = settings.gpu_node_pool
    if pool.node_gpus is None or pool.card_mode == "mig":
        return
    if pool.card_mode == "exclusive":
        yield from _whole_cards(settings, pool.node_gpus)
    else:
        yield from _shared_cards(settings, pool.node_gpus)


def _whole_cards(settings: Settings, per_node: int) -> Iterator[str]:
    services, nodes = list(enumerate(settings.services)), settings.gpu_node_pool.max_nodes
    too_large = [(index, service.gpus) for index, service in services if service.gpus > per_node]
    for index, gpus in too_large:
        yield f"services[{index}].gpus is {gpus}, but a node of the pool has {per_node}: lower it."
    if too_large or nodes is None:
        return
    needed = sum(service.autoscaler.max_replicas * service.gpus for _, service in services)
    if needed > nodes * per_node:
        yield (
            f"services can ask for {needed} GPUs (the sum of maxReplicas x gpus), but gpuNodePool offers at most "
            f"{nodes * per_node} ({nodes} nodes x {per_node}): raise the pool or lower maxReplicas."
        )
        return
    for index, service in services:
        most = nodes * (per_node // service.gpus)
        if service.autoscaler.max_replicas > most:
            yield (
                f"{_max_replicas(index, service)}, but gpus is {service.gpus} and a pod has all its GPUs on one node: "
                f"{nodes} nodes x {per_node} GPUs take {most}: raise the pool or lower maxReplicas."
            )


def _shared_cards(settings: Settings, per_node: int) -> Iterator[str]:
    services, nodes = list(enumerate(settings.services)), settings.gpu_node_pool.max_nodes
    mib = gpu_memory_mib(settings.gpu_node_pool.instance_types)
    card = mib // 1024 if mib else None
    for index, service in services:
        if card and (service.gpu_memory_gib or 0) > card:
            yield (
                f"services[{index}].gpuMemoryGiB is {service.gpu_memory_gib}, but a card of the pool has {card} GiB: "
                "lower it."
            )
            return
    if nodes is None:
        return
    for alias, field, unit, have in (
        ("gpuMemoryGiB", "gpu_memory_gib", "GiB", card),
        ("gpuCorePercent", "gpu_core_percent", "percent", 100),
    ):
        needed = sum(service.autoscaler.max_replicas * (getattr(service, field) or 0) for _, service in services)
        if have and needed > nodes * per_node * have:
            yield (
                f"services can ask for {needed} {unit} of GPUs (the sum of maxReplicas x {alias}), but gpuNodePool "
                f"offers at most {nodes * per_node * have} ({nodes} nodes x {per_node} cards x {have}): raise the pool "
                "or lower maxReplicas."
            )
            continue
        for index, service in services:
            asked = getattr(service, field)
            most = nodes * per_node * (have // asked) if have and asked else None
            if most is not None and service.autoscaler.max_replicas > most:
                yield (
                    f"{_max_replicas(index, service)}, but {alias} is {asked} and a pod has its share on one card: "
                    f"{nodes} nodes x {per_node} cards x {have} {unit} take {most}: raise the pool or lower "
                    "maxReplicas."
                )


def _max_replicas(index: int, service: Service) -> str:
    return f"services[{index}].autoscaler.maxReplicas is {service.autoscaler.max_replicas}"


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
            yield Finding(f"{key}.{name} is {text}, but a node of the pool has {largest:f} {unit}: lower it.", _BOTH)
        elif pods and nodes and nodes * int(largest // asked) < min(most, nodes * pods):
            held = int(largest // asked)
            yield Finding(
                f"{key}.{name} is {text}: of such pods a node of the pool holds {held} ({largest:f} {unit}), and "
                f"{nodes} nodes hold {nodes * held}, fewer than maxReplicas ({most}): lower {name} or maxReplicas, or "
                "raise the pool.",
                _BOTH,
            )
        elif pods and asked * pods > least:
            yield Finding(
                f"{key}.{name} is {text}, and {pods} pods, as many as the GPUs of a node take, ask for "
                f"{decimal(asked * pods)} {unit} of a node's {least:f}: GPUs stay unused; lower it.",
                _BOTH,
                "warning",
            )


def _pods_of_a_node(service: Service, pool: GpuNodePool) -> int | None:
    """How many its GPUs take; None where that is not known."""
    cards = pool.node_gpus
    if cards is None or pool.card_mode == "mig":
        return None
    if pool.card_mode == "exclusive":
        return cards // service.gpus
    card = gpu_memory_mib(pool.instance_types)
    return cards * (card // 1024 // service.gpu_memory_gib) if card and service.gpu_memory_gib else None


def _offer(name: str, row: InstanceType) -> Decimal:
    """CPUs or GiB of a node, of which the system keeps some; 0 where they are not known."""
    return Decimal(str(row.vcpus if name == "cpu" else row.memory_gib)).normalize()
