"""Random situations of an HPA, including edge cases of the controller's arithmetic."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autoscaling.hpa.behavior import (
    DEFAULT_TOLERANCE,
    Behavior,
    History,
    ScaleDown,
    ScaleUp,
    ScalingPolicy,
    ScalingRules,
)
from autoscaling.hpa.controller import Autoscaler, Decision, reconcile
from autoscaling.hpa.replica_count import Phase, Pod

_TARGETS = (1, 7, 500, 20_000, 20_000, 33_333, 5_000_000, 10**12)
_RUNNING: Phase = "Running"
_PHASES: tuple[Phase, ...] = (*[_RUNNING] * 8, "Pending", "Pending", "Failed", "Succeeded")

Samples = tuple[Mapping[str, int], ...]
"""For each metric, the values by pod name; empty if the metric cannot be read."""

_LARGEST = 2**31 - 1
"""Maximum number of replicas in a scale target."""


@dataclass(frozen=True)
class Sync:
    """The input of a sync; `replicas` is the count set by another client since the previous sync."""

    pods: tuple[Pod, ...]
    samples: Samples
    replicas: int | None = None


@dataclass(frozen=True)
class Situation:
    autoscaler: Autoscaler
    replicas: int
    sync_seconds: int
    syncs: tuple[Sync, ...]

    @property
    def starts_within_limits(self) -> bool:
        """Whether the first sync reads the metrics. Outside the limits it scales to the nearest limit."""
        return self.autoscaler.min_replicas <= self.replicas <= self.autoscaler.max_replicas

    def decisions(self, times: list[float]) -> Iterator[tuple[int, Decision]]:
        """Yield the replicas before each sync and its decision, for syncs at these times."""
        replicas, history = self.replicas, History()
        for sync, now in zip(self.syncs, times, strict=True):
            replicas = replicas if sync.replicas is None else sync.replicas
            decision, history = reconcile(self.autoscaler, replicas, sync.pods, sync.samples, history, now)
            yield replicas, decision
            replicas = decision.replicas


def specification(autoscaler: Autoscaler, target: Mapping[str, str], metrics: list[str]) -> dict[str, Any]:
    """Return the `autoscaling/v2` spec without default values, so that the API server sets them."""
    spec: dict[str, Any] = {
        "scaleTargetRef": dict(target),
        "maxReplicas": autoscaler.max_replicas,
        "metrics": [
            {
                "type": "Pods",
                "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": f"{value}m"}},
            }
            for name, value in zip(metrics, autoscaler.targets, strict=True)
        ],
    }
    if autoscaler.min_replicas != 1:
        spec["minReplicas"] = autoscaler.min_replicas
    if autoscaler.behavior:
        up, down = autoscaler.behavior.scale_up, autoscaler.behavior.scale_down
        spec["behavior"] = {"scaleUp": _rules(up, ScaleUp()), "scaleDown": _rules(down, ScaleDown())}
    return spec


def _rules(rules: ScalingRules, default: ScalingRules) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    if rules.stabilization_window_seconds != default.stabilization_window_seconds:
        fields["stabilizationWindowSeconds"] = rules.stabilization_window_seconds
    if rules.policies != default.policies:
        fields["policies"] = [
            {"type": policy.type, "value": policy.value, "periodSeconds": policy.period_seconds}
            for policy in rules.policies
        ]
    if rules.select_policy != default.select_policy:
        fields["selectPolicy"] = rules.select_policy
    if rules.tolerance != DEFAULT_TOLERANCE:
        fields["tolerance"] = f"{rules.tolerance}m"
    return fields or None


class Generator:
    """Situations from a seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def for_the_controller(self) -> Situation:
        """Return a situation for the controller alone. An API server might refuse it."""
        pick = self._random
        autoscaler = self._autoscaler(windows=(0, 1, 14, 15, 16, 30, 31, 60, 300), periods=(1, 15, 16, 30, 60, 1800))
        syncs: list[Sync] = []
        load, pods = self._load(autoscaler), self._pods(maximum=12)
        for _ in range(pick.randint(1, 12)):
            if pick.random() < 0.5:
                load, pods = self._load(autoscaler), self._pods(maximum=12)
            by_hand = self._replicas(autoscaler) if syncs and pick.random() < 0.05 else None
            syncs.append(Sync(pods, self._samples(load, pods, absurd=True), by_hand))
        return Situation(autoscaler, self._replicas(autoscaler), pick.choice([1, 15, 15, 60, 100]), tuple(syncs))

    def for_a_cluster(self, sync_seconds: int) -> Situation:
        """Return a short situation that an API server accepts and whose pods do not change.

        Replicas outside the limits have no `behavior`: the controller then corrects them without reading the
        metrics, so the time of that sync is unknown.
        """
        pick = self._random
        pods = self._pods(maximum=4)
        autoscaler = self._autoscaler(windows=(0, 1, 8, 20, 600), periods=(1, 8, 20, 600))
        loads = [load for _ in range(4) for load in [self._load(autoscaler)] * pick.randint(1, 2)]
        syncs = [Sync(pods, self._samples(load, pods, absurd=False)) for load in loads]
        # At 0 replicas the controller reads no metrics. Twice 2**30 is a negative number, which the API refuses.
        replicas = min(max(self._replicas(autoscaler), 1), 1000)
        situation = Situation(autoscaler, replicas, sync_seconds, tuple(syncs))
        if situation.starts_within_limits:
            return situation
        return replace(
            situation, autoscaler=replace(autoscaler, behavior=None), syncs=(Sync(pods, ()), *situation.syncs)
        )

    def _replicas(self, autoscaler: Autoscaler) -> int:
        pick = self._random
        smallest, largest = autoscaler.min_replicas, autoscaler.max_replicas
        if pick.random() < 0.9:
            return pick.randint(smallest, min(largest, smallest + pick.choice([3, 20])))
        return pick.choice([0, smallest - 1, min(largest + 1, _LARGEST), 1000, _LARGEST])

    def _autoscaler(self, windows: tuple[int, ...], periods: tuple[int, ...]) -> Autoscaler:
        pick = self._random
        smallest = pick.choice([1, 1, 1, 1, 2, 5])
        return Autoscaler(
            targets=tuple(pick.choice(_TARGETS) for _ in range(pick.choice([1, 1, 1, 2, 3]))),
            min_replicas=smallest,
            max_replicas=smallest + pick.choice([0, 1, 9, 9, 9, 99, 99, _LARGEST - smallest]),
            behavior=self._behavior(windows, periods),
        )

    def _behavior(self, windows: tuple[int, ...], periods: tuple[int, ...]) -> Behavior | None:
        kind = self._random.random()
        if kind < 0.3:
            return None
        if kind < 0.45:
            # Without a limit in either direction the decision equals the proposal.
            unlimited = (ScalingPolicy("Pods", 2**30, 1),)
            return Behavior(
                ScaleUp(policies=unlimited, tolerance=self._tolerance()),
                ScaleDown(policies=unlimited, tolerance=self._tolerance(), stabilization_window_seconds=0),
            )
        if kind < 0.55:
            # The direction with the longer period remembers changes that the other direction has forgotten.
            near, far = self._random.sample([self._random.choice(periods[:-1]), periods[-1]], 2)
            return Behavior(
                ScaleUp(policies=(ScalingPolicy("Pods", self._random.randint(1, 5), near),)),
                ScaleDown(
                    policies=(ScalingPolicy("Pods", self._random.randint(1, 5), far),), stabilization_window_seconds=0
                ),
            )
        return Behavior(
            ScaleUp(**self._rules(windows, periods)),
            ScaleDown(**self._rules(windows, periods)),
        )

    def _tolerance(self) -> int:
        return self._random.choice([DEFAULT_TOLERANCE] * 4 + [0, 1, 50, 200, 570, 1500])

    def _rules(self, windows: tuple[int, ...], periods: tuple[int, ...]) -> dict[str, Any]:
        pick = self._random
        rules: dict[str, Any] = {"tolerance": self._tolerance()}
        if pick.random() < 0.7:
            rules["stabilization_window_seconds"] = pick.choice(windows)
        if pick.random() < 0.8:
            rules["policies"] = tuple(self._policy(periods) for _ in range(pick.randint(1, 3)))
        rules["select_policy"] = pick.choice(["Max"] * 5 + ["Min"] * 3 + ["Disabled"])
        return rules

    def _policy(self, periods: tuple[int, ...]) -> ScalingPolicy:
        pick = self._random
        if pick.random() < 0.5:
            return ScalingPolicy("Pods", pick.choice([1, 1, 2, 4, 10, _LARGEST]), pick.choice(periods))
        return ScalingPolicy("Percent", pick.choice([1, 10, 33, 50, 100, 150, 900, 10_000]), pick.choice(periods))

    def _load(self, autoscaler: Autoscaler) -> tuple[int | None, ...]:
        """Return the average of each metric in thousandths; None if it cannot be read."""
        pick = self._random
        rules = autoscaler.behavior or Behavior()
        edges = (
            1000,
            1000 + rules.scale_up.tolerance,
            1000 - rules.scale_down.tolerance,
            2000,
            0,
            1000 * pick.randint(1, 12) // pick.randint(1, 12),
            *(pick.randint(0, 4000) for _ in range(4)),
        )
        return tuple(
            None if pick.random() < 0.06 else target * pick.choice(edges) // 1000 + pick.choice([-1, 0, 0, 0, 1])
            for target in autoscaler.targets
        )

    def _pods(self, maximum: int) -> tuple[Pod, ...]:
        pick = self._random
        if pick.random() < 0.5:
            return tuple(Pod(f"pod-{number}") for number in range(pick.randint(1, maximum)))
        return tuple(
            Pod(f"pod-{number}", pick.choice(_PHASES), terminating=pick.random() < 0.08)
            for number in range(pick.randint(0, maximum))
        )

    def _samples(self, load: tuple[int | None, ...], pods: tuple[Pod, ...], *, absurd: bool) -> Samples:
        return tuple({} if average is None else self._values(average, pods, absurd=absurd) for average in load)

    def _values(self, average: int, pods: tuple[Pod, ...], *, absurd: bool) -> dict[str, int]:
        pick = self._random
        present = pick.choice([1, 0.8])
        values = {pod.name: average for pod in pods if pick.random() < present}
        names = sorted(values)
        if len(names) > 1 and pick.random() < 0.3:
            # The same average, unevenly distributed.
            giver, taker = pick.sample(names, 2)
            moved = pick.randint(0, max(average, 0))
            values[giver] -= moved
            values[taker] += moved
        if pick.random() < 0.03:
            values["of-another-deployment"] = average
        if absurd and names and pick.random() < 0.03:
            values[pick.choice(names)] = pick.choice([218_322_032_000, 2**62, 2**63 - 1, -1, -(2**63), -average])
        return values
