"""The behavior of an HPA: windows and policies that limit how fast replicas change, and Kubernetes' defaults.

The rules are those of Kubernetes 1.36, `pkg/controller/podautoscaler`; each function names the one that it follows.
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


def in_full(behavior: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return both directions of an HPA's behavior with each field that counts; keys as the API has them.

    Where the behavior has no value, the API's default counts.
    """
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


def fastest(rules: ScalingRules, replicas: int, history: History, now: float, *, up: bool) -> int:
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
            allowed.append(wrapped(start + (policy.value if up else -policy.value), 32))
        elif up:
            allowed.append(int32(math.ceil(start * (1 + policy.value / 100))))
        else:
            allowed.append(int32(start * (1 - policy.value / 100)))
    return max(allowed) if up == (rules.select_policy == "Max") else min(allowed)


def with_scale_event(behavior: Behavior | None, history: History, change: int, now: float) -> History:
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
        return replace(history, scale_ups=remember(history.scale_ups, event, lambda dated: dated.time < cutoff))
    return replace(history, scale_downs=remember(history.scale_downs, event, lambda dated: dated.time < cutoff))


def remember(dated: tuple[Dated, ...], new: Dated, is_old: Callable[[Dated], bool]) -> tuple[Dated, ...]:
    """A new one takes the place of the last old one; other old ones stay, and count where they are looked for."""
    place = max((index for index, past in enumerate(dated) if is_old(past)), default=len(dated))
    return (*dated[:place], new, *dated[place + 1 :])
