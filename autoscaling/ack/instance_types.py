"""GPU instance types of Alibaba Cloud ECS and their resources."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class InstanceType:
    """A row of `gpu_instance_types.csv`, which names the source of each row."""

    name: str
    gpu_model: str
    gpus: float
    """Number of GPUs of a node; below 1 for a type with part of a card (vGPU)."""
    gpu_memory_gib: float
    """Memory of each GPU in GiB; 0 if unknown."""
    vcpus: float
    """vCPUs of a node; 0 if unknown."""
    memory_gib: float
    """Memory of a node in GiB; 0 if unknown."""
    gpus_documented: bool
    """Whether the number of GPUs is from the vendor's own page; otherwise it is inferred."""
    usable_on_ack: bool
    """False for confidential computing (`-tee`): https://www.alibabacloud.com/help/en/document_detail/422806.html."""


@cache
def _table() -> dict[str, InstanceType]:
    with Path(__file__).with_name("gpu_instance_types.csv").open(newline="") as file:
        return {
            row["instance_type"]: InstanceType(
                name=row["instance_type"],
                gpu_model=row["gpu_model"],
                gpus=float(row["gpu_count"]),
                gpu_memory_gib=float(row["gpu_memory_gib_per_gpu"] or 0),
                vcpus=float(row["vcpu"] or 0),
                memory_gib=float(row["memory_gib"] or 0),
                gpus_documented=row["confidence"].startswith("documented") and "gpu_count" not in row["confidence"],
                usable_on_ack="-tee" not in row["instance_type"],
            )
            for row in csv.DictReader(file)
            if row["gpu_count"]
        }


def find_instance_type(name: str) -> InstanceType | None:
    """Return the instance type with this name; None if the table does not have it, for example a newer type."""
    return _table().get(name)


def has_gpus(name: str) -> bool:
    """Return whether a type has GPUs: families gn, vgn and sgn, with ebm or scc in front for bare metal.

    https://www.alibabacloud.com/help/en/ecs/user-guide/overview-of-instance-families
    """
    return bool(re.match(r"ecs\.(ebm|scc)?[vs]?gn\d", name))


def gpu_memory_mib(names: Sequence[str]) -> int | None:
    """Return the memory of the largest GPU of these types, in MiB; None if the memory of any type is unknown."""
    rows = [find_instance_type(name) for name in names]
    sizes = [row.gpu_memory_gib for row in rows if row and row.gpu_memory_gib]
    return int(max(sizes) * 1024) if len(sizes) == len(rows) else None
