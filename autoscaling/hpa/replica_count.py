"""How many replicas a metric asks for: the average over the pods against its target.

The rules are those of Kubernetes 1.36, `pkg/controller/podautoscaler`; each function names the one that it follows.
Values of metrics are in thousandths of their unit, as the controller has them, and are averaged in whole thousandths:
23 % is 23000.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autoscaling.hpa.behavior import Behavior
from autoscaling.hpa.go_integers import int32, wrapped

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True)
class Pod:
    """A pod that the scale target selects; whether it is Ready does not matter for a Pods metric."""

    name: str
    phase: Phase = "Running"
    terminating: bool = False


@dataclass(frozen=True)
class Proposal:
    """What one metric asks for; `usage` is its average over the pods, in thousandths."""

    replicas: int
    usage: int


def metric_replicas(
    replicas: int, target: int, samples: Mapping[str, int], pods: Collection[Pod], behavior: Behavior | None = None
) -> Proposal | None:
    """What one metric asks for (`calcPlainMetricReplicas` in `replica_calculator.go`).

    Pods that have failed or terminate are left out, with their samples. A pod that is Pending counts as one that
    idles when replicas are to be added; a pod without a sample does too, and as one that is on target when they are
    to be taken away. Where such a guess turns the direction round, nothing is changed. A sample of a pod that is not
    selected does count.

    Returns:
        None where there is no sample of a pod that counts: the metric is broken.
    """
    ignored = {pod.name for pod in pods if pod.terminating or pod.phase == "Failed"}
    pending = {pod.name for pod in pods if pod.phase == "Pending"} - ignored
    counted = {pod.name for pod in pods} - ignored - pending
    missing = counted - samples.keys()
    values = {name: value for name, value in samples.items() if name not in ignored | pending}
    if not pods or not values:
        return None
    usage = _average(values.values())
    ratio = _ratio(usage, target)
    unchanged = Proposal(replicas, usage)
    with_pending = bool(pending) and ratio > 1
    if not with_pending and not missing:
        return unchanged if _is_tolerated(ratio, behavior) else Proposal(int32(math.ceil(ratio * len(counted))), usage)
    if ratio != 1:
        values |= dict.fromkeys(missing, target if ratio < 1 else 0)
    if with_pending:
        values |= dict.fromkeys(pending, 0)
    guessed = _ratio(_average(values.values()), target)
    if _is_tolerated(guessed, behavior) or guessed < 1 < ratio or ratio < 1 < guessed:
        return unchanged
    proposed = int32(math.ceil(guessed * len(values)))
    turned = proposed > replicas if guessed < 1 else proposed < replicas
    return unchanged if turned else Proposal(proposed, usage)


def largest(proposals: Sequence[Proposal | None], replicas: int) -> int | None:
    """The largest proposal; None where metrics are broken, unless replicas stay or grow by one that is not.

    `computeReplicasForMetrics` in `horizontal.go`.
    """
    valid = [proposal.replicas for proposal in proposals if proposal]
    if not valid or (len(valid) < len(proposals) and max(valid) < replicas):
        return None
    return max(valid)


def _ratio(usage: int, target: int) -> float:
    # Each as a float64 first, where Python would divide the whole numbers exactly.
    return float(usage) / float(target)


def _is_tolerated(ratio: float, behavior: Behavior | None) -> bool:
    """Whether a ratio of usage to target leads to no change (`tolerancesForHpa`, `isWithin`).

    Kubernetes before 1.33 compares the distance from 1 instead: there 22 of 20 is too far by an error of rounding.
    """
    rules = behavior or Behavior()
    down, up = (thousandths * 0.001 for thousandths in (rules.scale_down.tolerance, rules.scale_up.tolerance))
    return 1.0 - down <= ratio <= 1.0 + up


def _average(values: Collection[int]) -> int:
    """`GetMetricUsageRatio` in `metrics/utilization.go`: a sum of 64 bits, divided towards 0."""
    total = wrapped(sum(values), 64)
    return (abs(total) // len(values)) * (1 if total >= 0 else -1)
