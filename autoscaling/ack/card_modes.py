"""Card modes: the ways to share the cards of a node pool between pods.

A mode is a value of ACK's node label `ack.node.gpu.schedule`; `exclusive` is the value `default`. Sources: ACK's page
on GPU scheduling labels (2026-03-26; `mig`: an older edition), and the provider's `scaling_config.type`.

The pool sets the label on its nodes. `settings/capacity.py` requires the service settings that `asks_for` lists, and
`program/args.py` uses `pod_limits` to turn them into the container's limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CardModeName = Literal["exclusive", "cgpu", "core_mem", "share", "mig"]

SCHEDULE_LABEL = "ack.node.gpu.schedule"

WHOLE_GPU = "nvidia.com/gpu"
GPU_MEMORY = "aliyun.com/gpu-mem"
"""Memory of a card, in GiB."""
GPU_CORE = "aliyun.com/gpu-core.percentage"
"""Computing power of a card, in percent."""


@dataclass(frozen=True)
class CardMode:
    """A way to share cards between pods, or not to share them."""

    schedule: str
    """Value of the nodes' label."""
    scaling_type: Literal["gpu", "gpushare"]
    """Resource that the cluster autoscaler counts on the nodes."""
    asks_for: tuple[str, ...]
    """Service settings with the GPU resources of a pod."""


CARD_MODES: dict[CardModeName, CardMode] = {
    "exclusive": CardMode("default", "gpu", ("gpus",)),
    "cgpu": CardMode("cgpu", "gpushare", ("gpuMemoryGiB",)),
    "core_mem": CardMode("core_mem", "gpushare", ("gpuMemoryGiB", "gpuCorePercent")),
    "share": CardMode("share", "gpushare", ("gpuMemoryGiB",)),
    "mig": CardMode("mig", "gpu", ("migProfile", "gpus")),
}


def pod_limits(
    *, gpus: int, memory_gib: int | None = None, core_percent: int | None = None, mig_profile: str | None = None
) -> dict[str, str]:
    """Return the GPU resources of a pod.

    Args:
        gpus: number of cards, or of MIG instances if `mig_profile` is set; ignored if `memory_gib` is set.
        memory_gib: memory of a shared card, in GiB.
        core_percent: computing power of a shared card, in percent.
        mig_profile: profile such as `1g.10gb` or `1g.10gb+me`.
    """
    if memory_gib is not None:
        core = {} if core_percent is None else {GPU_CORE: str(core_percent)}
        return {GPU_MEMORY: str(memory_gib), **core}
    # A resource name cannot contain a plus sign, so NVIDIA's device plugin writes a dot.
    return {f"nvidia.com/mig-{mig_profile.replace('+', '.')}" if mig_profile else WHOLE_GPU: str(gpus)}
