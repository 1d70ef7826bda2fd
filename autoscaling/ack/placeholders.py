"""Placeholder pods: each reserves a whole card until a real pod preempts it."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaling.ack.card_modes import CARD_MODES, CardModeName, pod_limits
from autoscaling.ack.instance_types import find_instance_type

PRIORITY = -1
"""Between 0 and -10: pods without a class have 0, and the cluster autoscaler adds no nodes for pods below -10.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/use-ack-autoscaling-placeholder-to-scale-pods-in-seconds
"""

PLACEHOLDERS_NAMESPACE = "default"
"""Not kube-system: the cluster autoscaler does not remove nodes with pods of that namespace."""

_SHARE_OF_MEMORY = 0.9
"""The driver reports less than the nominal memory (22 of 24 GiB for an A10), and ACK allocates whole GiB of that."""


def placeholders_name(pool: str) -> str:
    """Return the name of the Deployment and the PriorityClass for a pool's placeholders."""
    return f"{pool}-warm"


def pause_image(region: str) -> str:
    """Return the pause image in the region's VPC. Every ACK node has it already, for pod sandboxes."""
    return f"registry-{region}-vpc.ack.aliyuncs.com/acs/pause:3.9"


def is_pause_image(image: str) -> bool:
    """Return whether an image is a pause image, whose container only waits."""
    return "/pause:" in image


def placeholder_limits(card_mode: CardModeName, instance_types: Sequence[str]) -> dict[str, str] | None:
    """Return the GPU resources of a pod that fills a whole card of any of these types.

    Return None for MIG instances, and for shared cards whose memory is unknown.
    """
    if card_mode == "mig":
        return None
    if card_mode == "exclusive":
        return pod_limits(gpus=1)
    rows = [find_instance_type(name) for name in instance_types]
    sizes = [row.gpu_memory_gib for row in rows if row and row.gpu_memory_gib]
    if len(sizes) < len(rows):
        return None
    core = 100 if "gpuCorePercent" in CARD_MODES[card_mode].asks_for else None
    return pod_limits(gpus=1, memory_gib=int(min(sizes) * _SHARE_OF_MEMORY), core_percent=core)
