"""A live node pool as settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL
from commands.adopt.account import Pool
from commands.adopt.proposal import REMOVED, Proposal

_KEY = "gpuNodePool"


def of_pool(pool: Pool, own_vswitches: Sequence[str]) -> Proposal:
    """Propose the settings that keep a pool as it is.

    Args:
        pool: as the account has it.
        own_vswitches: vSwitches of the cluster, which a pool gets by default.
    """
    proposal = Proposal()
    category, size_gib = pool.disk
    values: dict[tuple[str, ...], Any] = {
        ("instanceTypes",): list(pool.instance_types),
        ("systemDisk", "category"): category,
        ("systemDisk", "sizeGiB"): size_gib,
        ("taints",): [_taint(taint) for taint in pool.taints],
        ("keyName",): pool.key_name or REMOVED,
        ("spot",): _spot(pool),
        ("adopted",): True,
    }
    if sorted(pool.vswitch_ids) != sorted(own_vswitches):
        values["vswitchIds",] = list(pool.vswitch_ids)
    if pool.limits:
        low, high = pool.limits
        values |= {("size",): REMOVED, ("autoscaling", "min"): low, ("autoscaling", "max"): high}
    else:
        values |= {("autoscaling",): REMOVED, ("size",): pool.size}
    schedule = pool.labels.get(SCHEDULE_LABEL, CARD_MODES["exclusive"].schedule)
    mode = next((name for name, mode in CARD_MODES.items() if mode.schedule == schedule), None)
    if mode is None:
        proposal.problems.append(
            f"node pool {pool.name} has the label {SCHEDULE_LABEL}={schedule}, which is not a cardMode: "
            "set another gpuNodePool.name to create a pool of the stack's own."
        )
    else:
        values["cardMode",] = mode
    proposal.settings = {(_KEY, *key): value for key, value in values.items()}
    lost = sorted(set(pool.labels) - {SCHEDULE_LABEL})
    if lost:
        proposal.notes.append(
            f"node pool {pool.name} would lose its label{'s' if len(lost) > 1 else ''} {', '.join(lost)}: settings "
            "can't keep labels."
        )
    return proposal


def _taint(taint: Mapping[str, str]) -> dict[str, str]:
    return {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}


def _spot(pool: Pool) -> Any:
    if pool.spot_strategy == "NoSpot":
        return REMOVED
    if not pool.spot_limits:
        return {}
    return {"hourlyPriceLimits": {name: _number(price) for name, price in pool.spot_limits.items()}}


def _number(text: str) -> int | float:
    amount = Decimal(text)
    return int(amount) if amount == amount.to_integral_value() else float(amount)
