"""Time and disk of a build."""

from __future__ import annotations

import math
import os
from collections.abc import Collection

CPU_SECONDS = {
    "hey": 50,
    "pulumi-language-python": 40,
    "kubernetes": 690,
    "prometheus-adapter": 140,
    "kwok": 300,
    "prometheus": 240,
    "pulumi": 710,
    "kubernetes-provider": 1870,
}
"""By group, in the order of building: a group reuses what earlier groups compiled.

The total and the first three groups were measured on an empty cache. The split of the rest is an estimate.
"""
GIGABYTES = 20
"""Disk of a complete build, most of it for Go's caches. A part takes about as much of it as of the time."""


def build_estimate(groups: Collection[str], cores: int | None = None) -> str:
    """Return the time and disk that a build of these groups takes."""
    cores = cores or len(os.sched_getaffinity(0))
    seconds = sum(seconds for name, seconds in CPU_SECONDS.items() if name in groups)
    minutes = math.ceil(seconds / cores / 60)
    gigabytes = math.ceil(GIGABYTES * seconds / sum(CPU_SECONDS.values()))
    return f"about {minutes} min on {cores} idle cores, and up to {gigabytes} GB of disk meanwhile"
