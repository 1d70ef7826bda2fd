"""What a placeholder pod is: a whole card for nothing, until a real pod pushes it out."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaling.ack.card_modes import CARD_MODES, CardModeName, pod_limits
from autoscaling.ack.instance_types import find_instance_type

PRIORITY = -1
"""Below the 0 of pods without a class, and above the -10 below which the cluster's autoscaler brings no node.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/use-ack-autoscaling-placeholder-to-scale-pods-in-seconds
"""

PLACEHOLDERS_NAMESPACE = "default"
"""Not kube-system: the cluster's autoscaler gives no node back that has a pod of it."""

_SHARE_OF_MEMORY = 0.9
"""The driver reports less memory than a card is sold with (22 of 24 GiB of an A10), and ACK offers whole GiB of it."""


def placeholders_name(pool: str) -> str:
    """Of the Deployment and the PriorityClass of a pool's placeholders."""
    return f"{pool}-warm"


def pause_image(region: str) -> str:
    """The image that each node of ACK has already, since the sandbox of every pod runs it; inside the region's VPC."""
    return f"registry-{region}-vpc.ack.aliyuncs.com/acs/pause:3.9"


def is_pause_image(image: str) -> bool:
    """Whether the image runs no process of its own."""
    return "/pause:" in image


def placeholder_limits(card_mode: CardModeName, instance_types: Sequence[str]) -> dict[str, str] | None:
    """The GPU resources of a pod that has a card of any of these types for itself.

    None where that can't be said: of MIG instances, and of shared cards whose memory no source gives.
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
