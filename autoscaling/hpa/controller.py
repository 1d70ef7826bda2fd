"""What the HorizontalPodAutoscaler controller decides, as pure functions.

The rules are those of Kubernetes 1.36, `pkg/controller/podautoscaler`; each function names the one that it follows.
Values of metrics are in thousandths of their unit, as the controller has them, and are averaged in whole thousandths:
23 % is 23000. Times and durations are in seconds, on any clock that only goes forward.

Numbers are of the controller's own widths, since they decide what an absurd sample does: on amd64 a proposal beyond
2**31 - 1 becomes the least number there is, so that a sample of 9.2e18 takes replicas away instead of adding them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

Limit = Literal["ScaleUpLimit", "ScaleDownLimit", "TooManyReplicas", "TooFewReplicas"]
"""Reasons of the condition ScalingLimited: the policies in either direction, `max_replicas`, `min_replicas`."""

DEFAULT_TOLERANCE = 100
"""Thousandths of the target; `--horizontal-pod-autoscaler-tolerance` of the controller manager."""

DEFAULT_SCALE_DOWN_WINDOW = 300
"""Seconds; `--horizontal-pod-autoscaler-downscale-stabilization` of the controller manager."""


@dataclass(frozen=True)
class ScalingPolicy:
    """At most `value` pods, or percent of the pods, more or fewer in `period_seconds`."""

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


@dataclass(frozen=True, kw_only=True)
class ScalingRules:
    """The rules of one direction.

    Attributes:
        stabilization_window_seconds: for how long the metrics must ask for a change before it is made.
        policies: how fast replicas change.
        select_policy: the policy that counts: the one that allows most, the one that allows least, or no change.
        tolerance: how far the metric may be from its target without a change, in thousandths of the target.
    """

    stabilization_window_seconds: int
    policies: tuple[ScalingPolicy, ...]
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    tolerance: int = DEFAULT_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class ScaleUp(ScalingRules):
    """The defaults are the API's: `pkg/apis/autoscaling/v2/defaults.go`."""

    stabilization_window_seconds: int = 0
    policies: tuple[ScalingPolicy, ...] = (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15))


@dataclass(frozen=True, kw_only=True)
class ScaleDown(ScalingRules):
    """The defaults are the API's: `pkg/apis/autoscaling/v2/defaults.go`."""

    stabilization_window_seconds: int = DEFAULT_SCALE_DOWN_WINDOW
    policies: tuple[ScalingPolicy, ...] = (ScalingPolicy("Percent", 100, 15),)


@dataclass(frozen=True)
class Behavior:
    """The rules of both directions, which an HPA may go without."""

    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()


@dataclass(frozen=True, kw_only=True)
class Autoscaler:
    """An HPA on Pods metrics.

    Attributes:
        targets: the average over the pods to reach, of each metric; thousandths, above 0.
        min_replicas: 1 or more.
        max_replicas: `min_replicas` or more.
        behavior: None is not the same as the default rules: see `_limit_without_behavior`.
    """

    targets: tuple[int, ...]
    max_replicas: int
    min_replicas: int = 1
    behavior: Behavior | None = None


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


@dataclass(frozen=True)
class Dated:
    """A recommendation in replicas, or a change by so many, and when it was made."""

    replicas: int
    time: float


@dataclass(frozen=True)
class History:
    """What the controller remembers of an HPA from one sync to the next."""

    recommendations: tuple[Dated, ...] = ()
    scale_ups: tuple[Dated, ...] = ()
    scale_downs: tuple[Dated, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The outcome of a sync.

    Attributes:
        replicas: the desired number.
        usages: the average of each metric in thousandths, as `kubectl get hpa` shows it; None where it is broken.
            Empty where no metric was read, since the number was 0 or not between the two limits.
        scaling_active: whether the metrics, so far as they were read, are fit to scale on.
        stabilized: whether an earlier recommendation within the window counted, not the present one.
        limited_by: what kept the number from what was recommended.
    """

    replicas: int
    usages: tuple[int | None, ...] = ()
    scaling_active: bool = True
    stabilized: bool = False
    limited_by: Limit | None = None


def reconcile(
    autoscaler: Autoscaler,
    replicas: int,
    pods: Collection[Pod],
    samples: Sequence[Mapping[str, int]],
    history: History,
    now: float,
) -> tuple[Decision, History]:
    """One sync of the controller, every 15 s by default (`reconcileAutoscaler` in `horizontal.go`).

    Args:
        autoscaler: the HPA.
        replicas: what the scale target asks for at present.
        pods: the pods that it selects.
        samples: of each metric, the values by the name of the pod, in thousandths; empty where it can't be read.
        history: what the sync before returned.
        now: seconds.
    """
    if not history.recommendations:
        history = replace(history, recommendations=(Dated(replicas, now),))
    if replicas == 0:
        return Decision(0, scaling_active=False), history
    if replicas > autoscaler.max_replicas:
        decision = Decision(autoscaler.max_replicas)
    elif replicas < autoscaler.min_replicas:
        decision = Decision(autoscaler.min_replicas)
    else:
        proposals = [
            metric_replicas(replicas, target, values, pods, autoscaler.behavior)
            for target, values in zip(autoscaler.targets, samples, strict=True)
        ]
        usages = tuple(proposal.usage if proposal else None for proposal in proposals)
        proposed = _largest(proposals, replicas)
        if proposed is None:
            return Decision(replicas, usages, scaling_active=False), history
        decision, recommendations = _normalize(autoscaler, replicas, max(proposed, 0), history, now)
        decision = replace(decision, usages=usages)
        history = replace(history, recommendations=recommendations)
    return decision, _with_scale_event(autoscaler.behavior, history, decision.replicas - replicas, now)


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
        return unchanged if _is_tolerated(ratio, behavior) else Proposal(_int32(math.ceil(ratio * len(counted))), usage)
    if ratio != 1:
        values |= dict.fromkeys(missing, target if ratio < 1 else 0)
    if with_pending:
        values |= dict.fromkeys(pending, 0)
    guessed = _ratio(_average(values.values()), target)
    if _is_tolerated(guessed, behavior) or guessed < 1 < ratio or ratio < 1 < guessed:
        return unchanged
    proposed = _int32(math.ceil(guessed * len(values)))
    turned = proposed > replicas if guessed < 1 else proposed < replicas
    return unchanged if turned else Proposal(proposed, usage)


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


def _largest(proposals: Sequence[Proposal | None], replicas: int) -> int | None:
    """The largest proposal; None where metrics are broken, unless replicas stay or grow by one that is not.

    `computeReplicasForMetrics` in `horizontal.go`.
    """
    valid = [proposal.replicas for proposal in proposals if proposal]
    if not valid or (len(valid) < len(proposals) and max(valid) < replicas):
        return None
    return max(valid)


def _normalize(
    autoscaler: Autoscaler, replicas: int, proposed: int, history: History, now: float
) -> tuple[Decision, tuple[Dated, ...]]:
    """The proposal within windows and limits, and the recommendations with it among them.

    `normalizeDesiredReplicas` and `normalizeDesiredReplicasWithBehaviors` in `horizontal.go`.
    """
    recommendations, new = history.recommendations, Dated(proposed, now)
    if autoscaler.behavior is None:
        cutoff = now - DEFAULT_SCALE_DOWN_WINDOW
        stable = max([proposed, *(one.replicas for one in recommendations if one.time >= cutoff)])
        kept = _remember(recommendations, new, lambda one: one.time < cutoff)
        desired, limit = _limit_without_behavior(autoscaler, replicas, stable)
    else:
        up_cutoff = now - autoscaler.behavior.scale_up.stabilization_window_seconds
        down_cutoff = now - autoscaler.behavior.scale_down.stabilization_window_seconds
        lowest = min([proposed, *(one.replicas for one in recommendations if one.time > up_cutoff)])
        highest = max([proposed, *(one.replicas for one in recommendations if one.time > down_cutoff)])
        stable = min(max(replicas, lowest), highest)
        kept = _remember(recommendations, new, lambda one: one.time < min(up_cutoff, down_cutoff))
        desired, limit = _limit_with_behavior(autoscaler, autoscaler.behavior, replicas, stable, history, now)
    return Decision(desired, stabilized=stable != proposed, limited_by=limit), kept


def _limit_without_behavior(autoscaler: Autoscaler, replicas: int, desired: int) -> tuple[int, Limit | None]:
    """At most twice the replicas, or 4, in one sync (`convertDesiredReplicasWithRules` in `horizontal.go`)."""
    fastest = _int32(max(2.0 * replicas, 4.0))
    highest = min(fastest, autoscaler.max_replicas)
    if desired < autoscaler.min_replicas:
        return autoscaler.min_replicas, "TooFewReplicas"
    if desired > highest:
        return highest, "ScaleUpLimit" if fastest < autoscaler.max_replicas else "TooManyReplicas"
    return desired, None


def _limit_with_behavior(
    autoscaler: Autoscaler, behavior: Behavior, replicas: int, desired: int, history: History, now: float
) -> tuple[int, Limit | None]:
    """At most as fast as the policies say (`convertDesiredReplicasWithBehaviorRate` in `horizontal.go`)."""
    if desired > replicas:
        fastest = max(_fastest(behavior.scale_up, replicas, history, now, up=True), replicas)
        highest = min(fastest, autoscaler.max_replicas)
        if desired > highest:
            return highest, "ScaleUpLimit" if fastest < autoscaler.max_replicas else "TooManyReplicas"
    elif desired < replicas:
        fastest = min(_fastest(behavior.scale_down, replicas, history, now, up=False), replicas)
        lowest = max(fastest, autoscaler.min_replicas)
        if desired < lowest:
            return lowest, "ScaleDownLimit" if fastest > autoscaler.min_replicas else "TooFewReplicas"
    return desired, None


def _fastest(rules: ScalingRules, replicas: int, history: History, now: float, *, up: bool) -> int:
    """How far the policies let replicas go, from where each one's period began.

    `calculateScaleUpLimitWithScalingRules` and `calculateScaleDownLimitWithBehaviors` in `horizontal.go`.
    """
    if rules.select_policy == "Disabled":
        return replicas
    allowed = []
    for policy in rules.policies:
        added, removed = (
            sum(event.replicas for event in events if event.time > now - policy.period_seconds)
            for events in (history.scale_ups, history.scale_downs)
        )
        start = replicas - added + removed
        if policy.type == "Pods":
            allowed.append(_wrapped(start + (policy.value if up else -policy.value), 32))
        elif up:
            allowed.append(_int32(math.ceil(start * (1 + policy.value / 100))))
        else:
            allowed.append(_int32(start * (1 - policy.value / 100)))
    return max(allowed) if up == (rules.select_policy == "Max") else min(allowed)


def _with_scale_event(behavior: Behavior | None, history: History, change: int, now: float) -> History:
    """The history with a change of replicas (`storeScaleEvent` in `horizontal.go`).

    What is too old for the policies of its own direction is forgotten, though the other direction's may look further
    back: so does the controller.
    """
    if behavior is None or change == 0:
        return history
    event = Dated(abs(change), now)
    rules = behavior.scale_up if change > 0 else behavior.scale_down
    cutoff = now - max(policy.period_seconds for policy in rules.policies)
    if change > 0:
        return replace(history, scale_ups=_remember(history.scale_ups, event, lambda one: one.time < cutoff))
    return replace(history, scale_downs=_remember(history.scale_downs, event, lambda one: one.time < cutoff))


def _remember(dated: tuple[Dated, ...], new: Dated, is_old: Callable[[Dated], bool]) -> tuple[Dated, ...]:
    """A new one takes the place of the last old one; other old ones stay, and count where they are looked for."""
    place = max((index for index, one in enumerate(dated) if is_old(one)), default=len(dated))
    return (*dated[:place], new, *dated[place + 1 :])


def _average(values: Collection[int]) -> int:
    """`GetMetricUsageRatio` in `metrics/utilization.go`: a sum of 64 bits, divided towards 0."""
    total = _wrapped(sum(values), 64)
    return (abs(total) // len(values)) * (1 if total >= 0 else -1)


def _wrapped(number: int, bits: int) -> int:
    """A signed integer of so many bits, as Go adds."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def _int32(number: float) -> int:
    """As Go converts on amd64: towards 0, and the least number where it does not fit."""
    whole = int(number)
    return whole if whole == _wrapped(whole, 32) else -(1 << 31)
