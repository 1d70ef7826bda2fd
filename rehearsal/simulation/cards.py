"""The simulated cards: what a node offers in a card mode, what pods ask for, and which pod is on which card.

Sharing is by memory, first fit, in the order of the pods' names. Kubernetes' own scheduler sums over a node's cards,
where ACK's looks at each; MIG instances are not simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubernetes.utils.quantity import parse_quantity

from autoscaling.ack.card_modes import CARD_MODES, GPU_CORE, GPU_MEMORY, SCHEDULE_LABEL, WHOLE_GPU
from autoscaling.ack.instance_types import InstanceType
from rehearsal.simulation.watch import Object, is_serving

MEMORY_LABEL = "aliyun.accelerator/nvidia_mem"
"""Node label with a card's memory, such as `16384MiB`."""
COUNT_LABEL = "aliyun.accelerator/nvidia_count"

_RESOURCES = (WHOLE_GPU, GPU_MEMORY, GPU_CORE)


def offered(instance_type: InstanceType, labels: Mapping[str, str]) -> dict[str, int]:
    """GPU resources of a node with these labels; those of the other modes are not there, as on ACK."""
    mode = next((mode for mode in CARD_MODES.values() if mode.schedule == labels.get(SCHEDULE_LABEL)), None)
    cards = int(instance_type.gpus)
    asks = mode.asks_for if mode else ("gpus",)
    amounts = {
        WHOLE_GPU: cards if asks == ("gpus",) else 0,
        GPU_MEMORY: cards * int(instance_type.gpu_memory_gib) if "gpuMemoryGiB" in asks else 0,
        GPU_CORE: cards * 100 if "gpuCorePercent" in asks else 0,
    }
    return {resource: amount for resource, amount in amounts.items() if amount}


def asked(pod: Object) -> dict[str, int]:
    """GPU resources that the pod's containers ask for; empty for a pod without a GPU."""
    amounts = {
        resource: sum(
            int(parse_quantity(container.get("resources", {}).get("limits", {}).get(resource, 0)))
            for container in pod["spec"]["containers"]
        )
        for resource in _RESOURCES
    }
    return {resource: amount for resource, amount in amounts.items() if amount}


def nodes_needed(pods: Sequence[Object], offer: Mapping[str, int]) -> int:
    """How many nodes with this offer the pods take together; what the nodes never offer is left out."""
    wanted = [asked(pod) for pod in pods]
    totals = {resource: sum(one.get(resource, 0) for one in wanted) for resource in offer}
    return max((-(-totals[resource] // amount) for resource, amount in offer.items()), default=0)


def pods_on_cards(node: Object, pods: Sequence[Object]) -> list[list[Object]]:
    """The serving pods on each of the node's cards: at most one where cards are whole, any number where shared."""
    labels = node["metadata"].get("labels", {})
    capacity = node["status"].get("capacity", {})
    own = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"] and is_serving(pod)]
    if GPU_MEMORY not in capacity:
        holders = [pod for pod in own for _ in range(asked(pod).get(WHOLE_GPU, 0))]
        cards = int(capacity.get(WHOLE_GPU, 0))
        return [holders[index : index + 1] for index in range(cards)]
    shared: list[list[Object]] = [[] for _ in range(int(labels.get(COUNT_LABEL, 0)))]
    free = [int(capacity[GPU_MEMORY]) // len(shared) for _ in shared]
    for pod in own:
        memory = asked(pod).get(GPU_MEMORY, 0)
        card = next((index for index, left in enumerate(free) if memory and left >= memory), None)
        if card is not None:
            free[card] -= memory
            shared[card].append(pod)
    return shared
