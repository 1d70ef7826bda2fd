"""Simulated GPU cards: the GPU resources of nodes and pods, and the placement of pods on cards.

Pods share cards by memory, first fit, in the order of their names. The Kubernetes scheduler checks only the total of a
node, while ACK's scheduler checks each card. MIG instances are not simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaling.ack.card_modes import CARD_MODES, GPU_CORE, GPU_MEMORY, SCHEDULE_LABEL, WHOLE_GPU
from autoscaling.ack.instance_types import InstanceType
from autoscaling.quantity import parse_quantity
from live.cluster_client import Object
from rehearsal.simulation.cluster_copy import is_serving

MEMORY_LABEL = "aliyun.accelerator/nvidia_mem"
"""Node label with the memory of a card, such as `16384MiB`."""
COUNT_LABEL = "aliyun.accelerator/nvidia_count"

_RESOURCES = (WHOLE_GPU, GPU_MEMORY, GPU_CORE)


def gpu_capacity(instance_type: InstanceType, labels: Mapping[str, str]) -> dict[str, int]:
    """Return the GPU resources of a node with these labels. As on ACK, the card mode selects them."""
    mode = next((mode for mode in CARD_MODES.values() if mode.schedule == labels.get(SCHEDULE_LABEL)), None)
    cards = int(instance_type.gpus)
    requests = mode.asks_for if mode else ("gpus",)
    amounts = {
        WHOLE_GPU: cards if requests == ("gpus",) else 0,
        GPU_MEMORY: cards * int(instance_type.gpu_memory_gib) if "gpuMemoryGiB" in requests else 0,
        GPU_CORE: cards * 100 if "gpuCorePercent" in requests else 0,
    }
    return {resource: amount for resource, amount in amounts.items() if amount}


def requested_gpus(pod: Object) -> dict[str, int]:
    """Return the GPU resources that the pod requests; empty for a pod without GPUs."""
    amounts = {
        resource: sum(
            int(parse_quantity(container.get("resources", {}).get("limits", {}).get(resource, "0")))
            for container in pod["spec"]["containers"]
        )
        for resource in _RESOURCES
    }
    return {resource: amount for resource, amount in amounts.items() if amount}


def nodes_needed(pods: Sequence[Object], capacity: Mapping[str, int]) -> int:
    """Return how many nodes of this capacity the pods need; ignore resources that the nodes do not have."""
    requests = [requested_gpus(pod) for pod in pods]
    totals = {resource: sum(request.get(resource, 0) for request in requests) for resource in capacity}
    return max((-(-totals[resource] // amount) for resource, amount in capacity.items()), default=0)


def pods_on_cards(node: Object, pods: Sequence[Object]) -> list[list[Object]]:
    """Return the serving pods on each card of the node. Only a shared card can have several pods."""
    labels = node["metadata"].get("labels", {})
    capacity = node["status"].get("capacity", {})
    own = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"] and is_serving(pod)]
    if GPU_MEMORY not in capacity:
        holders = [pod for pod in own for _ in range(requested_gpus(pod).get(WHOLE_GPU, 0))]
        cards = int(capacity.get(WHOLE_GPU, 0))
        return [holders[index : index + 1] for index in range(cards)]
    shared: list[list[Object]] = [[] for _ in range(int(labels.get(COUNT_LABEL, 0)))]
    free = [int(capacity[GPU_MEMORY]) // len(shared) for _ in shared]
    for pod in own:
        memory = requested_gpus(pod).get(GPU_MEMORY, 0)
        card = next((index for index, available in enumerate(free) if memory and available >= memory), None)
        if card is not None:
            free[card] -= memory
            shared[card].append(pod)
    return shared
