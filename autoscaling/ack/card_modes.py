"""How the cards of a node pool are given to pods: the nodes' label, the pods' resource, the autoscaler's kind.

The modes are values of ACK's node label `ack.node.gpu.schedule`, but `exclusive`, whose value is `default`. Source:
ACK's page on GPU scheduling labels (2026-03-26; `mig`: an older edition), and the provider's `scaling_config.type`.

A mode reaches a pod in three steps: `settings/capacity.py` requires the service's settings that `asks_for` names,
`program/args.py` turns them into the container's limits by `pod_limits`, and the pool gives its nodes the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CardModeName = Literal["exclusive", "cgpu", "core_mem", "share", "mig"]

SCHEDULE_LABEL = "ack.node.gpu.schedule"

WHOLE_GPU = "nvidia.com/gpu"
GPU_MEMORY = "aliyun.com/gpu-mem"
"""GiB of one card's memory."""
GPU_CORE = "aliyun.com/gpu-core.percentage"
"""Percent of one card's computing power."""


@dataclass(frozen=True)
class CardMode:
    """One way to share, or not to share, a card."""

    schedule: str
    """Value of the nodes' label."""
    scaling_type: Literal["gpu", "gpushare"]
    """What the cluster's autoscaler counts on the nodes."""
    asks_for: tuple[str, ...]
    """Settings of a service that say what a pod gets."""


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
    """The GPU resources of a pod.

    Args:
        gpus: whole cards, or MIG instances where there is a profile; not read where `memory_gib` is given.
        memory_gib: GiB of a shared card.
        core_percent: percent of a shared card's computing power.
        mig_profile: such as `1g.10gb` or `1g.10gb+me`.
    """
    if memory_gib is not None:
        core = {} if core_percent is None else {GPU_CORE: str(core_percent)}
        return {GPU_MEMORY: str(memory_gib), **core}
    # NVIDIA's device plugin writes a dot for the plus sign, which the name of a resource can't have.
    return {f"nvidia.com/mig-{mig_profile.replace('+', '.')}" if mig_profile else WHOLE_GPU: str(gpus)}
