"""Taints and tolerations, with Kubernetes' semantics."""

from __future__ import annotations

import pytest
from kubernetes import client

from autoscaling.ack.taints import blocking_taints, format_taint, tolerations
from autoscaling.settings.gpu_node_pool import Taint

TEAM = Taint(key="team", value="ml", effect="NoSchedule")
BARE = Taint(key="gpu", effect="NoExecute")


def toleration(**fields: str) -> client.V1Toleration:
    return client.V1Toleration(**fields)


def test_a_pod_of_the_pool_tolerates_only_its_taints() -> None:
    assert tolerations([TEAM, BARE]) == [
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Equal", "effect": "NoExecute"},
    ]
    tolerated = [toleration(**fields) for fields in tolerations([TEAM, BARE])]
    assert blocking_taints([TEAM, BARE], tolerated) == []
    assert blocking_taints([Taint(key="team", value="other", effect="NoSchedule")], tolerated)


# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
@pytest.mark.parametrize(
    ("fields", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "ml"}, True),
        ({"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Equal", "value": "other"}, False),
        ({"key": "team", "operator": "Equal"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_matches_as_in_kubernetes(fields: dict[str, str], tolerated: bool) -> None:
    assert (blocking_taints([TEAM], [toleration(**fields)]) == []) is tolerated


def test_preferences_and_node_conditions_do_not_block_daemon_sets() -> None:
    not_ready = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
    assert blocking_taints([Taint(key="team", effect="PreferNoSchedule"), not_ready]) == []


def test_taints_have_kubectls_format() -> None:
    assert [format_taint(taint) for taint in (TEAM, BARE)] == ["team=ml:NoSchedule", "gpu:NoExecute"]
