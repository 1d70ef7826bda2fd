"""A live node pool as settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulumi_alicloud.cs.outputs import GetKubernetesNodePoolsNodepoolResult

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL
from commands.adopt.proposal import Proposal, number

_KEY = "gpuNodePool"


def propose_pool(proposal: Proposal, pool: GetKubernetesNodePoolsNodepoolResult, own_vswitches: Sequence[str]) -> None:
    """Propose the settings that keep a pool as it is. By default, a pool uses the cluster's vSwitches."""
    values: dict[tuple[str, ...], Any] = {
        ("instanceTypes",): list(pool.instance_types),
        ("systemDisk", "category"): pool.system_disk_category,
        ("systemDisk", "sizeGiB"): int(pool.system_disk_size),
        ("taints",): [
            {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in pool.taints or []
        ],
        ("keyName",): pool.key_name or None,
        ("spot",): _spot(pool),
        ("adopted",): True,
    }
    if sorted(pool.vswitch_ids) != sorted(own_vswitches):
        values["vswitchIds",] = list(pool.vswitch_ids)
    limits: Any = pool.scaling_config
    if limits and limits.enable:
        values |= {
            ("size",): None,
            ("autoscaling", "min"): int(limits.min_size or 0),
            ("autoscaling", "max"): int(limits.max_size or 0),
        }
    else:
        values |= {("autoscaling",): None, ("size",): int(pool.desired_size or 0)}
    labels = {label.key: label.value for label in pool.labels or []}
    schedule = labels.pop(SCHEDULE_LABEL, CARD_MODES["exclusive"].schedule)
    mode = next((name for name, mode in CARD_MODES.items() if mode.schedule == schedule), None)
    if mode is None:
        proposal.problems.append(
            f"node pool {pool.node_pool_name} has the label {SCHEDULE_LABEL}={schedule}, which no value of "
            "gpuNodePool.cardMode sets. Set another gpuNodePool.name to create a new pool."
        )
    else:
        values["cardMode",] = mode
    proposal.settings |= {(_KEY, *key): value for key, value in values.items()}
    if labels:
        proposal.notes.append(
            f"node pool {pool.node_pool_name} would lose its label{'s' if len(labels) > 1 else ''} "
            f"{', '.join(sorted(labels))}: no setting can keep labels."
        )


def _spot(pool: GetKubernetesNodePoolsNodepoolResult) -> Any:
    if (pool.spot_strategy or "NoSpot") == "NoSpot":
        return None
    limits = {limit.instance_type: number(limit.price_limit) for limit in pool.spot_price_limits or []}
    return {"hourlyPriceLimits": limits} if limits else {}
