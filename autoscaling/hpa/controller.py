"""The decision of the HorizontalPodAutoscaler controller at each sync, as pure functions.

The code follows `pkg/controller/podautoscaler` of Kubernetes 1.36; each function names its counterpart there.
Times and durations are in seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autoscaling.hpa.behavior import (
    DEFAULT_SCALE_DOWN_WINDOW,
    Behavior,
    Dated,
    History,
    remember,
    scaling_limit,
    with_scale_event,
)
from autoscaling.hpa.go_integers import int32
from autoscaling.hpa.replica_count import Pod, largest, metric_replicas

Limit = Literal["ScaleUpLimit", "ScaleDownLimit", "TooManyReplicas", "TooFewReplicas"]
"""Reasons of the condition ScalingLimited: policies (up, down), `max_replicas`, `min_replicas`."""


@dataclass(frozen=True, kw_only=True)
class Autoscaler:
    """An HPA on Pods metrics.

    Attributes:
        targets: target average over the pods for each metric, in thousandths, above 0.
        min_replicas: 1 or more.
        max_replicas: `min_replicas` or more.
        behavior: the scaling rules; None is not the same as the default rules, see `_limit_without_behavior`.
    """

    targets: tuple[int, ...]
    max_replicas: int
    min_replicas: int = 1
    behavior: Behavior | None = None


@dataclass(frozen=True)
class Decision:
    """The outcome of a sync.

    Attributes:
        replicas: the desired number of replicas.
        usages: average of each metric in thousandths, as in `kubectl get hpa`; None for a metric without samples.
            Empty if the replicas are 0 or outside the limits, because the controller then reads no metric.
        scaling_active: status of the condition ScalingActive.
        stabilized: whether an earlier recommendation within the window overrode the current one.
        limited_by: the limit that changed the recommended number.
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
    """Run a sync of the controller, by default every 15 s (`reconcileAutoscaler` in `horizontal.go`).

    Args:
        autoscaler: the HPA.
        replicas: current `spec.replicas` of the scale target.
        pods: pods of the scale target.
        samples: for each metric, values by pod name, in thousandths; empty if the metric cannot be read.
        history: history that the previous sync returned.
        now: current time.
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
        proposed = largest(proposals, replicas)
        if proposed is None:
            return Decision(replicas, usages, scaling_active=False), history
        decision, recommendations = _normalize(autoscaler, replicas, max(proposed, 0), history, now)
        decision = replace(decision, usages=usages)
        history = replace(history, recommendations=recommendations)
    return decision, with_scale_event(autoscaler.behavior, history, decision.replicas - replicas, now)


def _normalize(
    autoscaler: Autoscaler, replicas: int, proposed: int, history: History, now: float
) -> tuple[Decision, tuple[Dated, ...]]:
    """Apply windows and limits to a proposal; return the decision and the updated recommendations.

    See `normalizeDesiredReplicas` and `normalizeDesiredReplicasWithBehaviors` in `horizontal.go`.
    """
    recommendations, new = history.recommendations, Dated(proposed, now)
    if autoscaler.behavior is None:
        cutoff = now - DEFAULT_SCALE_DOWN_WINDOW
        stable = max([proposed, *(dated.replicas for dated in recommendations if dated.time >= cutoff)])
        kept = remember(recommendations, new, lambda dated: dated.time < cutoff)
        desired, limit = _limit_without_behavior(autoscaler, replicas, stable)
    else:
        up_cutoff = now - autoscaler.behavior.scale_up.stabilization_window_seconds
        down_cutoff = now - autoscaler.behavior.scale_down.stabilization_window_seconds
        lowest = min([proposed, *(dated.replicas for dated in recommendations if dated.time > up_cutoff)])
        highest = max([proposed, *(dated.replicas for dated in recommendations if dated.time > down_cutoff)])
        stable = min(max(replicas, lowest), highest)
        kept = remember(recommendations, new, lambda dated: dated.time < min(up_cutoff, down_cutoff))
        desired, limit = _limit_with_behavior(autoscaler, autoscaler.behavior, replicas, stable, history, now)
    return Decision(desired, stabilized=stable != proposed, limited_by=limit), kept


def _limit_without_behavior(autoscaler: Autoscaler, replicas: int, desired: int) -> tuple[int, Limit | None]:
    """Allow at most max(2 x current, 4) replicas per sync (`convertDesiredReplicasWithRules` in `horizontal.go`)."""
    limit = int32(max(2.0 * replicas, 4.0))
    highest = min(limit, autoscaler.max_replicas)
    if desired < autoscaler.min_replicas:
        return autoscaler.min_replicas, "TooFewReplicas"
    if desired > highest:
        return highest, "ScaleUpLimit" if limit < autoscaler.max_replicas else "TooManyReplicas"
    return desired, None


def _limit_with_behavior(
    autoscaler: Autoscaler, behavior: Behavior, replicas: int, desired: int, history: History, now: float
) -> tuple[int, Limit | None]:
    """Apply the policies (`convertDesiredReplicasWithBehaviorRate` in `horizontal.go`)."""
    if desired > replicas:
        limit = max(scaling_limit(behavior.scale_up, replicas, history, now, up=True), replicas)
        highest = min(limit, autoscaler.max_replicas)
        if desired > highest:
            return highest, "ScaleUpLimit" if limit < autoscaler.max_replicas else "TooManyReplicas"
    elif desired < replicas:
        limit = min(scaling_limit(behavior.scale_down, replicas, history, now, up=False), replicas)
        lowest = max(limit, autoscaler.min_replicas)
        if desired < lowest:
            return lowest, "ScaleDownLimit" if limit > autoscaler.min_replicas else "TooFewReplicas"
    return desired, None
