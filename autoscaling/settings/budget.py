"""The budget: what may be set on it, and everything that can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Amount, Count, InstanceTypeName, Model
from autoscaling.settings.wording import nearest

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_MAX_GPUS = "budget.maxGpus"
_MAX_COST = "budget.maxHourlyCost"
_PRICES = "budget.hourlyPrices"


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
