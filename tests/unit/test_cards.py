"""The simulated cards: what nodes offer and pods take in each card mode."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL, CardModeName
from autoscaling.ack.instance_types import InstanceType, find_instance_type
from rehearsal.simulation.cards import gpu_capacity, nodes_needed, pods_on_cards, requested_gpus


def instance_type(name: str) -> InstanceType:
    found = find_instance_type(name)
    assert found
    return found


def pod(name: str, ready: str = "True", **limits: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "c", "resources": {"limits": {k.replace("__", "/"): v for k, v in limits.items()}}}
            ],
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def on_gpus(name: str, count: int) -> dict[str, Any]:
    return pod(name, **{"nvidia.com__gpu": str(count)})


def shared(name: str, gib: int) -> dict[str, Any]:
    return pod(name, **{"aliyun.com__gpu-mem": str(gib)})


def node(**capacity: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "labels": {"aliyun.accelerator/nvidia_count": "2"}},
        "status": {"capacity": {key.replace("__", "/"): value for key, value in capacity.items()}},
    }


# Two V100 of 16 GiB; the resources of each mode: ACK's page on GPU scheduling labels.
@pytest.mark.parametrize(
    ("mode", "resources"),
    [
        ("exclusive", {"nvidia.com/gpu": 2}),
        ("cgpu", {"aliyun.com/gpu-mem": 32}),
        ("share", {"aliyun.com/gpu-mem": 32}),
        ("core_mem", {"aliyun.com/gpu-mem": 32, "aliyun.com/gpu-core.percentage": 200}),
    ],
)
def test_a_node_offers_the_resources_of_its_mode_alone(mode: CardModeName, resources: dict[str, int]) -> None:
    labels = {SCHEDULE_LABEL: CARD_MODES[mode].schedule}
    assert gpu_capacity(instance_type("ecs.gn6v-c8g1.4xlarge"), labels) == resources


def test_whole_cards_have_one_pod_each_and_a_pod_may_have_several() -> None:
    cards = pods_on_cards(node(**{"nvidia.com__gpu": "2"}), [on_gpus("a", 2)])
    assert [[one["metadata"]["name"] for one in pods] for pods in cards] == [["a"], ["a"]]
    assert pods_on_cards(node(**{"nvidia.com__gpu": "2"}), []) == [[], []]


def test_shared_cards_are_filled_one_after_the_other_and_never_beyond_their_memory() -> None:
    pods = [shared("a", 10), shared("b", 10), shared("c", 6), shared("d", 10)]
    cards = pods_on_cards(node(**{"aliyun.com__gpu-mem": "32"}), pods)
    assert [[one["metadata"]["name"] for one in each] for each in cards] == [["a", "c"], ["b"]]


def test_a_pod_that_does_not_serve_runs_nothing_on_a_card() -> None:
    waiting = pod("a", ready="False", **{"nvidia.com__gpu": "1"})
    assert pods_on_cards(node(**{"nvidia.com__gpu": "2"}), [waiting]) == [[], []]


def test_nodes_are_ordered_for_what_is_scarcest() -> None:
    demand = {"aliyun.com__gpu-mem": "4", "aliyun.com__gpu-core.percentage": "60"}
    pods = [pod(name, **demand) for name in ("a", "b", "c", "d")]
    offer = {"aliyun.com/gpu-mem": 16, "aliyun.com/gpu-core.percentage": 100}
    assert nodes_needed(pods, offer) == 3, "240 percent, where 16 GiB of memory fit one node"
    assert nodes_needed([on_gpus("a", 1)], offer) == 0, "a node of this mode would not help"
    assert nodes_needed([], {}) == 0


def test_a_pod_may_write_its_gpus_as_any_quantity() -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1k"}}}, {}]}}
    assert requested_gpus(pod) == {"nvidia.com/gpu": 1000}
