"""The taints of the GPU nodes, and the tolerations by which pods come there all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Taint(Protocol):
    """What keeps pods off a node, as Kubernetes has it."""

    @property
    def key(self) -> str:
        """Such as `nvidia.com/gpu`."""

    @property
    def value(self) -> str:
        """May be empty."""

    @property
    def effect(self) -> str:
        """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


def tolerations(taints: Iterable[Taint]) -> list[dict[str, str]]:
    """The tolerations of a pod that is meant for nodes with these taints: one each, which matches nothing else."""
    return [
        # The API server drops an empty value, and would then differ from what was asked for.
        {"key": taint.key, "operator": "Equal", **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
        for taint in taints
    ]
