"""The taints of the GPU nodes, and the tolerations by which pods come there all the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

_OF_KUBERNETES = "node.kubernetes.io/"
"""Taints of a node in trouble; the DaemonSet controller has its pods tolerate them."""


class Taint(Protocol):
    """A taint of a node, as Kubernetes has it; an empty value is the same as none."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> str | None: ...

    @property
    def effect(self) -> str: ...


class Toleration(Protocol):
    """A toleration of a pod, as Kubernetes has it; an empty part matches any, and the default operator is `Equal`."""

    @property
    def key(self) -> str | None: ...

    @property
    def operator(self) -> str | None: ...

    @property
    def value(self) -> str | None: ...

    @property
    def effect(self) -> str | None: ...


def tolerations(taints: Iterable[Taint]) -> list[dict[str, str]]:
    """The tolerations of a pod that is meant for nodes with these taints: one each, which matches nothing else."""
    return [
        # The API server drops an empty value, and would then differ from what was asked for.
        {
            "key": taint.key,
            "operator": "Equal",
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in taints
    ]


def keeping_off(taints: Iterable[Taint], tolerated: Sequence[Toleration] = ()) -> list[Taint]:
    """Those of a node's taints that keep the pods of a DaemonSet with these tolerations off the node."""
    return [
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule"
        and not taint.key.startswith(_OF_KUBERNETES)
        and not any(_matches(toleration, taint) for toleration in tolerated)
    ]


def written(taint: Taint) -> str:
    """As kubectl shows it: `key=value:effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return (toleration.value or "") == (taint.value or "")
