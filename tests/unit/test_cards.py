"""Simulated GPU cards: GPU resources and the placement of pods in each card mode."""

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


# A node with two V100 of 16 GiB. The resources are from ACK's page on GPU scheduling labels.
@pytest.mark.parametrize(
    ("mode", "resources"),
    [
        ("exclusive", {"nvidia.com/gpu": 2}),
        ("cgpu", {"aliyun.com/gpu-mem": 32}),
        ("share", {"aliyun.com/gpu-mem": 32}),
        ("core_mem", {"aliyun.com/gpu-mem": 32, "aliyun.com/gpu-core.percentage": 200}),
    ],
)
def test_a_node_has_only_the_resources_of_its_card_mode(mode: CardModeName, resources: dict[str, int]) -> None:
    labels = {SCHEDULE_LABEL: CARD_MODES[mode].schedule}
    assert gpu_capacity(instance_type("ecs.gn6v-c8g1.4xlarge"), labels) == resources


def test_a_whole_card_has_at_most_one_pod_and_a_pod_can_have_several_cards() -> None:
    cards = pods_on_cards(node(**{"nvidia.com__gpu": "2"}), [on_gpus("a", 2)])
    assert [[pod["metadata"]["name"] for pod in pods] for pods in cards] == [["a"], ["a"]]
    assert pods_on_cards(node(**{"nvidia.com__gpu": "2"}), []) == [[], []]


def test_pods_fill_shared_cards_in_order_up_to_their_memory() -> None:
    pods = [shared("a", 10), shared("b", 10), shared("c", 6), shared("d", 10)]
    cards = pods_on_cards(node(**{"aliyun.com__gpu-mem": "32"}), pods)
    assert [[pod["metadata"]["name"] for pod in pods] for pods in cards] == [["a", "c"], ["b"]]


def test_a_pod_that_is_not_ready_is_not_on_a_card() -> None:
    waiting = pod("a", ready="False", **{"nvidia.com__gpu": "1"})
    assert pods_on_cards(node(**{"nvidia.com__gpu": "2"}), [waiting]) == [[], []]


def test_the_scarcest_resource_decides_the_number_of_nodes() -> None:
    demand = {"aliyun.com__gpu-mem": "4", "aliyun.com__gpu-core.percentage": "60"}
    pods = [pod(name, **demand) for name in ("a", "b", "c", "d")]
    capacity = {"aliyun.com/gpu-mem": 16, "aliyun.com/gpu-core.percentage": 100}
    assert nodes_needed(pods, capacity) == 3, "240 percent of cores need 3 nodes; 16 GiB of memory would fit on 1"
    assert nodes_needed([on_gpus("a", 1)], capacity) == 0, "a node of this mode has no whole GPUs"
    assert nodes_needed([], {}) == 0


def test_a_gpu_limit_can_be_any_quantity() -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1k"}}}, {}]}}
    assert requested_gpus(pod) == {"nvidia.com/gpu": 1000}
