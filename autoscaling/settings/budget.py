"""The budget: what may be set on it, and everything that can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Amount, Count, InstanceTypeName, Model
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_TYPES = "gpuNodePool.instanceTypes"
_PER_NODE = "gpuNodePool.gpusPerNode"
_POOL_SIZE = ("gpuNodePool.size", "gpuNodePool.autoscaling")
_MAX_GPUS = "budget.maxGpus"
_MAX_COST = "budget.maxHourlyCost"
_PRICES = "budget.hourlyPrices"


class Budget(Model):
    """What the stack may grow to; a preview above it is refused."""

    max_gpus: Count | None = None
    """Most GPUs that the node pool may have."""
    max_hourly_cost: Amount | None = None
    """Most that the GPU nodes may cost an hour, in the currency of `hourlyPrices`."""
    hourly_prices: dict[InstanceTypeName, Amount] = {}
    """Price of a node an hour by instance type; no price is guessed."""


def budget_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault of the budget."""
    # What the pool may grow to is what is paid for, whichever service or placeholder made it grow.
    pool, budget = settings.gpu_node_pool, settings.budget
    nodes = pool.max_nodes
    if nodes is None:
        return
    if budget.max_gpus is not None:
        per_node = pool.node_gpus
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
