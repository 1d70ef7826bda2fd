"""The replicas that a metric asks for: the ratio of its average over the pods to its target.

The code follows `pkg/controller/podautoscaler` of Kubernetes 1.36; each function names its counterpart there.
As in the controller, metric values are in thousandths of their unit (23 % is 23000), and averages are rounded to whole
thousandths.
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
    """A pod of the scale target. Pods metrics ignore whether it is Ready."""

    name: str
    phase: Phase = "Running"
    terminating: bool = False


@dataclass(frozen=True)
class Proposal:
    """The replicas that a metric asks for; `usage` is its average over the pods, in thousandths."""

    replicas: int
    usage: int


def metric_replicas(
    replicas: int, target: int, samples: Mapping[str, int], pods: Collection[Pod], behavior: Behavior | None = None
) -> Proposal | None:
    """Compute a metric's proposal (`calcPlainMetricReplicas` in `replica_calculator.go`).

    Failed and terminating pods are ignored, with their samples. When scaling up, Pending pods and pods without a sample
    count as 0. When scaling down, pods without a sample count as on target. If such an estimate reverses the direction,
    the replicas stay. Samples of pods outside the selector count too.

    Returns:
        None if no sample is left: the metric cannot be used.
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
    estimated = _ratio(_average(values.values()), target)
    if _is_tolerated(estimated, behavior) or estimated < 1 < ratio or ratio < 1 < estimated:
        return unchanged
    proposed = int32(math.ceil(estimated * len(values)))
    is_reversed = proposed > replicas if estimated < 1 else proposed < replicas
    return unchanged if is_reversed else Proposal(proposed, usage)


def largest(proposals: Sequence[Proposal | None], replicas: int) -> int | None:
    """Return the largest proposal (`computeReplicasForMetrics` in `horizontal.go`).

    Return None if no metric is valid, or if a metric is invalid and the largest proposal would remove replicas.
    """
    valid = [proposal.replicas for proposal in proposals if proposal]
    if not valid or (len(valid) < len(proposals) and max(valid) < replicas):
        return None
    return max(valid)


def _ratio(usage: int, target: int) -> float:
    # Go converts to float64 first; Python divides integers exactly.
    return float(usage) / float(target)


def _is_tolerated(ratio: float, behavior: Behavior | None) -> bool:
    """Return whether a ratio of usage to target is within the tolerance (`tolerancesForHpa`, `isWithin`).

    Kubernetes before 1.33 compares the distance from 1. A rounding error then puts 22 outside the tolerance of 20.
    """
    rules = behavior or Behavior()
    down, up = (thousandths * 0.001 for thousandths in (rules.scale_down.tolerance, rules.scale_up.tolerance))
    return 1.0 - down <= ratio <= 1.0 + up


def _average(values: Collection[int]) -> int:
    """Divide a 64-bit sum, rounding towards 0 (`GetMetricUsageRatio` in `metrics/utilization.go`)."""
    total = wrapped(sum(values), 64)
    return (abs(total) // len(values)) * (1 if total >= 0 else -1)
