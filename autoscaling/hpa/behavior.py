"""The behavior of an HPA: stabilization windows, scaling policies and Kubernetes' defaults.

The code follows `pkg/controller/podautoscaler` of Kubernetes 1.36; each function names its counterpart there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from autoscaling.hpa.go_integers import int32, wrapped

DEFAULT_TOLERANCE = 100
"""Thousandths of the target; `--horizontal-pod-autoscaler-tolerance` of the controller manager."""

DEFAULT_SCALE_DOWN_WINDOW = 300
"""Seconds; `--horizontal-pod-autoscaler-downscale-stabilization` of the controller manager."""


@dataclass(frozen=True)
class ScalingPolicy:
    """A limit on the change within `period_seconds`: `value` pods, or `value` percent of the pods."""

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


@dataclass(frozen=True, kw_only=True)
class ScalingRules:
    """The scaling rules of a direction, up or down.

    Attributes:
        stabilization_window_seconds: time for which the metrics must ask for a change before the HPA scales.
        policies: limits on the speed of changes.
        select_policy: use the policy that allows the largest change (Max) or the smallest (Min), or do not scale.
        tolerance: largest distance of a metric from its target without a change, in thousandths of the target.
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
    """The rules of both directions; optional in an HPA."""

    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()


@dataclass(frozen=True)
class Dated:
    """A recommended number of replicas, or the size of a change, with its time."""

    replicas: int
    time: float


@dataclass(frozen=True)
class History:
    """The controller's memory of an HPA between syncs."""

    recommendations: tuple[Dated, ...] = ()
    scale_ups: tuple[Dated, ...] = ()
    scale_downs: tuple[Dated, ...] = ()


def with_defaults(behavior: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return an HPA's behavior for both directions, with the API's keys and its defaults for missing fields."""
    defaults = Behavior()
    return {
        side: {
            "stabilizationWindowSeconds": rules.stabilization_window_seconds,
            "policies": [
                {"type": policy.type, "value": policy.value, "periodSeconds": policy.period_seconds}
                for policy in rules.policies
            ],
            "selectPolicy": rules.select_policy,
            **{key: value for key, value in ((behavior or {}).get(side) or {}).items() if value is not None},
        }
        for side, rules in (("scaleUp", defaults.scale_up), ("scaleDown", defaults.scale_down))
    }


def scaling_limit(rules: ScalingRules, replicas: int, history: History, now: float, *, up: bool) -> int:
    """Return the highest (up) or lowest (down) number of replicas that the policies allow.

    Each policy counts from the number of replicas at the start of its period. See
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
            allowed.append(wrapped(start + (policy.value if up else -policy.value), 32))
        elif up:
            allowed.append(int32(math.ceil(start * (1 + policy.value / 100))))
        else:
            allowed.append(int32(start * (1 - policy.value / 100)))
    return max(allowed) if up == (rules.select_policy == "Max") else min(allowed)


def with_scale_event(behavior: Behavior | None, history: History, change: int, now: float) -> History:
    """Return the history with a change of replicas added (`storeScaleEvent` in `horizontal.go`).

    Like the controller, drop an event that is too old for the policies of its own direction, even if the other
    direction looks further back.
    """
    if behavior is None or change == 0:
        return history
    event = Dated(abs(change), now)
    rules = behavior.scale_up if change > 0 else behavior.scale_down
    cutoff = now - max(policy.period_seconds for policy in rules.policies)
    if change > 0:
        return replace(history, scale_ups=remember(history.scale_ups, event, lambda dated: dated.time < cutoff))
    return replace(history, scale_downs=remember(history.scale_downs, event, lambda dated: dated.time < cutoff))


def remember(dated: tuple[Dated, ...], new: Dated, is_old: Callable[[Dated], bool]) -> tuple[Dated, ...]:
    """Put a new entry in place of the last old entry. Like the controller, keep other old entries."""
    place = max((index for index, past in enumerate(dated) if is_old(past)), default=len(dated))
    return (*dated[:place], new, *dated[place + 1 :])
