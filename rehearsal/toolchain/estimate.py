"""What a build takes, measured on an empty cache."""

from __future__ import annotations

import math
import os
from collections.abc import Collection

CPU_SECONDS = {
    "hey": 50,
    "pulumi-language-python": 60,
    "kubernetes": 900,
    "prometheus-adapter": 150,
    "kwok": 400,
    "prometheus": 380,
    "pulumi": 700,
    "kubernetes-provider": 1400,
}
"""By group, in the order of building: a group reuses what earlier groups compiled."""
GIGABYTES = 20
"""Disk of a complete build, most of it for Go's caches. A part takes about as much of it as of the time."""


def build_estimate(groups: Collection[str], cores: int | None = None) -> str:
    """Return the time and disk that a build of these groups takes."""
    cores = cores or len(os.sched_getaffinity(0))
    seconds = sum(seconds for name, seconds in CPU_SECONDS.items() if name in groups)
    minutes = math.ceil(seconds / cores / 60)
    gigabytes = math.ceil(GIGABYTES * seconds / sum(CPU_SECONDS.values()))
    return f"about {minutes} min on {cores} idle cores, and up to {gigabytes} GB of disk meanwhile"
