"""The controller's arithmetic: published traces, known problems, and invariants."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaling.hpa.behavior import Behavior, History, ScaleDown, ScaleUp, ScalingPolicy
from autoscaling.hpa.controller import Autoscaler, Decision, reconcile
from autoscaling.hpa.replica_count import Pod, Proposal, metric_replicas

# The same examples in each run, even on a slow machine.
settings.register_profile("deterministic", derandomize=True, database=None, deadline=None)
settings.load_profile("deterministic")

TRACES = Path(__file__).parents[1] / "data" / "hpa_traces.csv"
GUIDE = Autoscaler(targets=(20_000,), max_replicas=10)
"""The guide's HPA: a target of 20 %, 1 to 10 replicas."""
UNLIMITED = (ScalingPolicy("Pods", 1000, 1),)
NO_WINDOWS = Behavior(ScaleUp(policies=UNLIMITED), ScaleDown(policies=UNLIMITED, stabilization_window_seconds=0))


def running(count: int) -> tuple[Pod, ...]:
    return tuple(Pod(f"pod-{number}") for number in range(count))


def each(value: int, *pods: Pod) -> Mapping[str, int]:
    return {pod.name: value for pod in pods}


def decide(
    autoscaler: Autoscaler, replicas: int, value: int, history: History | None = None, now: float = 0
) -> Decision:
    """Return the decision if all replicas run and have the value."""
    pods = running(replicas)
    return reconcile(autoscaler, replicas, pods, [each(value, *pods)], history or History(), now)[0]


def replicas_over_time(autoscaler: Autoscaler, load: Callable[[float], int], seconds: int) -> list[int]:
    """Return the replicas after each sync, every 15 s. The load, in thousandths, spreads evenly over all replicas."""
    replicas, history, counts = autoscaler.min_replicas, History(), []
    for now in range(0, seconds, 15):
        pods = running(replicas)
        samples = each(load(now) // replicas, *pods)
        decision, history = reconcile(autoscaler, replicas, pods, [samples], history, now)
        replicas = decision.replicas
        counts.append(replicas)
    return counts


# -- published traces --------------------------------------------------------------------------------------------------


def traces() -> list[dict[str, str]]:
    return list(csv.DictReader(TRACES.read_text().splitlines()))


@pytest.mark.parametrize("row", traces(), ids=lambda row: f"{row['trace']}-{row['step']}")
def test_reproduces_the_published_steps_of_real_clusters(row: dict[str, str]) -> None:
    replicas, value = int(row["replicas_before"]), int(Decimal(row["avg_value"]) * 1000)
    autoscaler = Autoscaler(targets=(int(row["target"]) * 1000,), max_replicas=int(row["max"]))
    # In 2020, Kubernetes compared differently, and 22 was just outside the tolerance of 20: see C3.
    expected = 1 if row["trace"] == "ack-2020" else int(row["replicas_after"])
    assert decide(autoscaler, replicas, value).replicas == expected


# -- a single metric ---------------------------------------------------------------------------------------------------


@pytest.mark.case("C3")
@pytest.mark.parametrize(
    ("replicas", "value", "expected"),
    [(1, 21_000, 1), (1, 22_000, 1), (1, 22_001, 2), (1, 23_000, 2), (10, 18_000, 10), (10, 17_999, 9)],
)
def test_a_tenth_of_the_target_is_tolerated_inclusively(replicas: int, value: int, expected: int) -> None:
    pods = running(replicas)
    assert metric_replicas(replicas, 20_000, each(value, *pods), pods) == Proposal(expected, value)


@pytest.mark.parametrize(("value", "expected"), [(20_999, 10), (21_001, 11), (18_001, 10), (15_999, 8)])
def test_each_direction_has_its_own_tolerance(value: int, expected: int) -> None:
    behavior = Behavior(ScaleUp(tolerance=50), ScaleDown(tolerance=200))
    pods = running(10)
    assert metric_replicas(10, 20_000, each(value, *pods), pods, behavior) == Proposal(expected, value)


def test_a_pod_without_a_sample_counts_as_idle_when_scaling_up_and_as_on_target_when_scaling_down() -> None:
    pods = running(4)
    # (60 + 60 + 60 + 0) / 4 = 45 of 20
    assert metric_replicas(4, 20_000, each(60_000, *pods[:3]), pods) == Proposal(9, 60_000)
    # (2 + 2 + 2 + 20) / 4 = 6.5 of 20
    assert metric_replicas(4, 20_000, each(2_000, *pods[:3]), pods) == Proposal(2, 2_000)


def test_an_estimate_never_reverses_the_direction() -> None:
    pods = running(4)
    # (30 + 0 + 0 + 0) / 4 = 7.5 of 20 would be 2
    assert metric_replicas(4, 20_000, each(30_000, *pods[:1]), pods) == Proposal(4, 30_000)
    # (10 + 10 + 20) / 3 = 13.3 of 20 would be 2
    assert metric_replicas(1, 20_000, each(10_000, *pods[:2]), pods[:3]) == Proposal(1, 10_000)


def test_a_pod_without_a_sample_changes_nothing_if_the_others_are_on_target() -> None:
    assert metric_replicas(2, 20_000, {"pod-0": 20_000}, running(2)) == Proposal(2, 20_000)


def test_a_pending_pod_counts_as_idle_only_when_scaling_up() -> None:
    pods = (*running(1), Pod("starting", "Pending"), Pod("waiting", "Pending"))
    # (60 + 0 + 0) / 3 is on target
    assert metric_replicas(1, 20_000, {"pod-0": 60_000, "starting": 0}, pods) == Proposal(1, 60_000)
    # (80 + 0 + 0) / 3 = 26.7 of 20
    assert metric_replicas(3, 20_000, {"pod-0": 80_000}, pods) == Proposal(4, 80_000)
    # (19 + 0 + 0) / 3 would be 1
    assert metric_replicas(3, 20_000, {"pod-0": 19_000}, pods) == Proposal(3, 19_000)


@pytest.mark.parametrize("gone", [Pod("gone", "Failed"), Pod("gone", terminating=True)])
def test_failed_and_terminating_pods_and_their_samples_do_not_count(gone: Pod) -> None:
    pods = (*running(2), gone)
    samples = {**each(30_000, *pods[:2]), "gone": 90_000}
    assert metric_replicas(2, 20_000, samples, pods) == Proposal(3, 30_000)


@pytest.mark.parametrize(
    ("samples", "pods"),
    [({}, running(1)), ({"pod-0": 1}, ()), ({"starting": 1}, (Pod("starting", "Pending"),))],
    ids=["no sample", "no pod", "only samples of ignored pods"],
)
def test_a_metric_without_a_sample_that_counts_is_invalid(samples: Mapping[str, int], pods: tuple[Pod, ...]) -> None:
    assert metric_replicas(1, 20_000, samples, pods) is None


@pytest.mark.case("A5")
def test_an_absurd_sample_scales_to_the_maximum_unless_the_rules_drop_it() -> None:
    absurd = 218_322_032_000
    with_behavior = Autoscaler(targets=(20_000,), max_replicas=10, behavior=Behavior())
    assert replicas_over_time(with_behavior, lambda now: absurd, 30) == [5, 10]
    decision, _ = reconcile(with_behavior, 1, running(1), [{}], History(), 0)
    assert decision == Decision(1, usages=(None,), scaling_active=False), "a dropped value is not a sample"


@pytest.mark.case("A5")
def test_a_sample_that_overflows_the_controllers_integers_removes_replicas() -> None:
    without_windows = Autoscaler(targets=(20_000,), max_replicas=10, behavior=NO_WINDOWS)
    assert decide(without_windows, 8, 2**60 - 1) == Decision(1, (2**60 - 1,), limited_by="TooFewReplicas")


# -- several metrics ---------------------------------------------------------------------------------------------------

TWO = Autoscaler(targets=(20_000, 500), max_replicas=100, behavior=NO_WINDOWS)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (40_000, 2_000, Decision(16, (40_000, 2_000))),
        (40_000, 100, Decision(8, (40_000, 100))),
        (10_000, 100, Decision(2, (10_000, 100))),
        (40_000, None, Decision(8, (40_000, None))),
        (20_000, None, Decision(4, (20_000, None))),
        (10_000, None, Decision(4, (10_000, None), scaling_active=False)),
        (None, None, Decision(4, (None, None), scaling_active=False)),
    ],
)
def test_the_largest_proposal_wins_and_an_invalid_metric_blocks_scaling_down(
    first: int | None, second: int | None, expected: Decision
) -> None:
    pods = running(4)
    samples = [{} if value is None else each(value, *pods) for value in (first, second)]
    assert reconcile(TWO, 4, pods, samples, History(), 0)[0] == expected


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "expected"), [(0, 0), (1, 2), (12, 10)])
def test_replicas_outside_the_limits_move_to_the_nearest_limit_and_0_turns_the_hpa_off(
    replicas: int, expected: int
) -> None:
    autoscaler = Autoscaler(targets=(20_000,), min_replicas=2, max_replicas=10)
    decision = decide(autoscaler, replicas, 1_000_000)
    assert decision == Decision(expected, scaling_active=replicas != 0)


@pytest.mark.parametrize(("replicas", "expected"), [(1, 4), (2, 4), (3, 6), (10, 20)])
def test_without_behavior_a_sync_at_most_doubles_the_replicas_or_scales_to_4(replicas: int, expected: int) -> None:
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=100)
    assert decide(autoscaler, replicas, 2_000_000) == Decision(expected, (2_000_000,), limited_by="ScaleUpLimit")


@pytest.mark.parametrize(("select", "expected"), [("Max", [9, 14, 21]), ("Min", [8, 10, 12]), ("Disabled", [6, 6, 6])])
def test_select_policy_chooses_between_several_policies(select: str, expected: list[int]) -> None:
    policies = (ScalingPolicy("Pods", 2, 15), ScalingPolicy("Percent", 45, 15))
    up = ScaleUp(policies=policies, select_policy=select)  # type: ignore[arg-type]
    autoscaler = Autoscaler(targets=(20_000,), min_replicas=6, max_replicas=100, behavior=Behavior(up))
    assert replicas_over_time(autoscaler, lambda now: 20_000_000, 45) == expected


def test_a_policy_counts_from_the_start_of_its_period() -> None:
    behavior = Behavior(ScaleUp(policies=(ScalingPolicy("Pods", 3, 30),)))
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=100, behavior=behavior)
    assert replicas_over_time(autoscaler, lambda now: 20_000_000, 75) == [4, 4, 7, 7, 10]


def test_replicas_removed_within_the_period_may_return_in_addition() -> None:
    behavior = Behavior(
        ScaleUp(policies=(ScalingPolicy("Pods", 1, 60),)), ScaleDown(policies=UNLIMITED, stabilization_window_seconds=0)
    )
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=100, behavior=behavior)
    five_pods, single_pod = running(5), running(1)
    decision, history = reconcile(autoscaler, 5, five_pods, [each(0, *five_pods)], History(), 0)
    assert decision.replicas == 1
    after_the_period, _ = reconcile(autoscaler, 1, single_pod, [each(2_000_000, *single_pod)], history, 61)
    decision, _ = reconcile(autoscaler, 1, single_pod, [each(2_000_000, *single_pod)], history, 30)
    assert (decision.replicas, after_the_period.replicas) == (6, 2)


def test_a_percentage_policy_rounds_in_favor_of_the_change() -> None:
    tenth = (ScalingPolicy("Percent", 10, 15),)
    behavior = Behavior(ScaleUp(policies=tenth), ScaleDown(policies=tenth, stabilization_window_seconds=0))
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=100, behavior=behavior)
    assert decide(autoscaler, 5, 2_000_000) == Decision(6, (2_000_000,), limited_by="ScaleUpLimit")
    assert decide(autoscaler, 5, 0) == Decision(4, (0,), limited_by="ScaleDownLimit")


# -- windows -----------------------------------------------------------------------------------------------------------


def test_without_behavior_scaling_down_needs_5_minutes_of_lower_recommendations() -> None:
    assert replicas_over_time(GUIDE, lambda now: 95_000 if now < 30 else 5_000, 360) == [4, *[5] * 21, 1, 1]


def test_a_scale_up_window_delays_scaling_up() -> None:
    behavior = Behavior(ScaleUp(stabilization_window_seconds=60))
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=10, behavior=behavior)
    assert replicas_over_time(autoscaler, lambda now: 95_000, 90) == [1, 1, 1, 1, 5, 5]


@pytest.mark.case("C9")
@pytest.mark.parametrize(("window", "changes"), [(0, 20), (300, 1)])
def test_bursts_make_replicas_flap_unless_the_window_is_longer_than_the_pause(window: int, changes: int) -> None:
    behavior = Behavior(scale_down=ScaleDown(stabilization_window_seconds=window))
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=10, behavior=behavior)
    replicas = [1, *replicas_over_time(autoscaler, lambda now: 95_000 if now % 90 < 30 else 5_000, 15 * 60)]
    assert sum(before != after for before, after in itertools.pairwise(replicas)) == changes
    assert max(replicas) == 5


@pytest.mark.case("C7")
def test_a_rollout_with_surge_adds_replicas_at_constant_load_and_a_rollout_without_surge_does_not() -> None:
    replicas, growing = 1, []
    for overlap in (2, 3):
        pods = running(overlap)
        replicas = reconcile(GUIDE, replicas, pods, [each(15_000, *pods)], History(), 0)[0].replicas
        growing.append(replicas)
    assert growing == [2, 3], "maxSurge 1: old and new pods count together"

    old, new, replicas, history = Pod("old"), Pod("new"), 1, History()
    rollout = [
        ((old,), {"old": 15_000}),
        ((Pod("old", terminating=True), Pod("new", "Pending")), {"old": 15_000}),
        ((new,), {}),
        ((new,), {"new": 15_000}),
    ]
    for now, (steps, samples) in enumerate(rollout):
        decision, history = reconcile(GUIDE, replicas, steps, [samples], history, 15 * now)
        replicas = decision.replicas
        assert replicas == 1, "maxSurge 0, maxUnavailable 1"


# -- invariants --------------------------------------------------------------------------------------------------------

values = st.integers(0, 10_000_000)
counts = st.integers(1, 30)
policies = st.lists(
    st.builds(ScalingPolicy, st.sampled_from(["Pods", "Percent"]), st.integers(1, 200), st.integers(1, 60)),
    min_size=1,
    max_size=3,
).map(tuple)
selects = st.sampled_from(["Max", "Min", "Disabled"])
windows = st.integers(0, 90)
behaviors = st.none() | st.builds(
    Behavior,
    st.builds(ScaleUp, stabilization_window_seconds=windows, policies=policies, select_policy=selects),
    st.builds(ScaleDown, stabilization_window_seconds=windows, policies=policies, select_policy=selects),
)
loads = st.lists(values, min_size=1, max_size=12)


@given(behaviors, loads, counts, st.integers(0, 20))
def test_replicas_stay_between_their_limits(
    behavior: Behavior | None, load: list[int], smallest: int, more: int
) -> None:
    autoscaler = Autoscaler(targets=(20_000,), min_replicas=smallest, max_replicas=smallest + more, behavior=behavior)
    results = replicas_over_time(autoscaler, lambda now: load[int(now // 15)], 15 * len(load))
    assert all(smallest <= replicas <= smallest + more for replicas in results)


@given(counts, st.integers(1, 10**6), values, values)
def test_a_higher_value_never_asks_for_fewer_replicas(replicas: int, target: int, value: int, other: int) -> None:
    pods = running(replicas)
    low, high = (metric_replicas(replicas, target, each(sample, *pods), pods) for sample in sorted((value, other)))
    assert low and high and low.replicas <= high.replicas


@given(counts, st.integers(1, 10**6), values)
def test_a_proposal_meets_the_target_or_keeps_the_replicas(replicas: int, target: int, value: int) -> None:
    pods = running(replicas)
    proposal = metric_replicas(replicas, target, each(value, *pods), pods)
    assert proposal
    if abs(value - target) * 10 <= target:
        assert proposal.replicas == replicas
    else:
        assert proposal.replicas == math.ceil(Decimal(replicas) * value / target)


@given(behaviors, loads, counts)
def test_an_invalid_metric_never_removes_replicas(behavior: Behavior | None, load: list[int], replicas: int) -> None:
    autoscaler = Autoscaler(targets=(20_000, 500), max_replicas=30, behavior=behavior)
    history = History()
    for number, value in enumerate(load):
        pods = running(replicas)
        decision, history = reconcile(autoscaler, replicas, pods, [each(value, *pods), {}], history, 15 * number)
        assert decision.replicas >= replicas or decision.replicas == autoscaler.max_replicas
        replicas = decision.replicas


@given(loads, st.integers(1, 300))
def test_replicas_never_fall_below_recommendations_within_the_window(load: list[int], window: int) -> None:
    behavior = Behavior(ScaleUp(policies=UNLIMITED), ScaleDown(stabilization_window_seconds=window))
    autoscaler = Autoscaler(targets=(20_000,), max_replicas=10_000, behavior=behavior)
    history = History()
    for number, value in enumerate(load):
        now = 15 * number
        pods = running(8)
        decision, history = reconcile(autoscaler, 8, pods, [each(value, *pods)], history, now)
        recent = [dated.replicas for dated in history.recommendations if dated.time > now - window]
        assert decision.replicas >= min(8, max(recent))


def test_ratios_of_huge_numbers_have_go_float_precision() -> None:
    # The result of Go 1.26 on amd64. An exact division gives 6, and thus 42 replicas.
    pods = running(7)
    proposal = metric_replicas(7, 208_754_105_998_843_854, each(1_252_524_635_993_063_124, *pods), pods)
    assert proposal
    assert proposal.replicas == 43
