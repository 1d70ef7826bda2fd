"""Which pods come to a node with taints, as Kubernetes has it."""

from __future__ import annotations

import pytest
from kubernetes import client

from autoscaling.ack.taints import blocking_taints, format_taint, tolerations
from autoscaling.settings.gpu_node_pool import Taint

TEAM = Taint(key="team", value="ml", effect="NoSchedule")
BARE = Taint(key="gpu", effect="NoExecute")


def toleration(**fields: str) -> client.V1Toleration:
    return client.V1Toleration(**fields)


def test_a_pod_of_the_pool_tolerates_its_taints_and_nothing_else() -> None:
    assert tolerations([TEAM, BARE]) == [
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Equal", "effect": "NoExecute"},
    ]
    made = [toleration(**one) for one in tolerations([TEAM, BARE])]
    assert blocking_taints([TEAM, BARE], made) == []
    assert blocking_taints([Taint(key="team", value="other", effect="NoSchedule")], made)


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
def test_a_toleration_matches_as_kubernetes_says(fields: dict[str, str], tolerated: bool) -> None:
    assert (blocking_taints([TEAM], [toleration(**fields)]) == []) is tolerated


def test_a_preference_and_a_node_in_trouble_keep_no_daemon_off() -> None:
    trouble = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
    assert blocking_taints([Taint(key="team", effect="PreferNoSchedule"), trouble]) == []


def test_a_taint_is_written_as_kubectl_shows_it() -> None:
    assert [format_taint(one) for one in (TEAM, BARE)] == ["team=ml:NoSchedule", "gpu:NoExecute"]
