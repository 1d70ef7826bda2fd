"""GPU instance types of Alibaba Cloud ECS: what a node brings."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class InstanceType:
    """One row of `gpu_instance_types.csv`; the file names the source of each."""

    name: str
    gpu_model: str
    gpus: float
    """GPUs of a node; a fraction for a type that has a slice of a card (vGPU)."""
    gpu_memory_gib: float
    """Memory of one GPU in GiB; 0 where no source gives it."""
    vcpus: float
    """vCPUs of a node; 0 where no source gives them."""
    memory_gib: float
    """Memory of a node in GiB; 0 where no source gives it."""
    gpus_documented: bool
    """Whether the vendor's own page gives the number of GPUs; else it is inferred."""
    usable_on_ack: bool
    """ACK takes no type with confidential computing (`-tee`; https://www.alibabacloud.com/help/en/document_detail/422806.html)."""


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
    """The type of that name, or None where the table does not have it: it may be newer than the table."""
    return _table().get(name)


def has_gpus(name: str) -> bool:
    """Whether a type is of a family with GPUs: gn, vgn and sgn, and ebm and scc before those are bare metal.

    https://www.alibabacloud.com/help/en/ecs/user-guide/overview-of-instance-families
    """
    return bool(re.match(r"ecs\.(ebm|scc)?[vs]?gn\d", name))


def gpu_memory_mib(names: Sequence[str]) -> int | None:
    """Memory of the largest GPU of these types, in MiB; None where no source gives that of each."""
    rows = [find_instance_type(name) for name in names]
    sizes = [row.gpu_memory_gib for row in rows if row and row.gpu_memory_gib]
    return int(max(sizes) * 1024) if len(sizes) == len(rows) else None
