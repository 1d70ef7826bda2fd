"""Taints of the GPU nodes, and the matching tolerations of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

_NODE_CONDITIONS = "node.kubernetes.io/"
"""Prefix of the taints for node conditions, which the pods of DaemonSets tolerate."""


class Taint(Protocol):
    """A node's taint. An empty value equals a missing value."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> str | None: ...

    @property
    def effect(self) -> str: ...


class Toleration(Protocol):
    """A pod's toleration. An empty key or effect matches all; the default operator is `Equal`."""

    @property
    def key(self) -> str | None: ...

    @property
    def operator(self) -> str | None: ...

    @property
    def value(self) -> str | None: ...

    @property
    def effect(self) -> str | None: ...


def tolerations(taints: Iterable[Taint]) -> list[dict[str, str]]:
    """Return tolerations that match exactly these taints, in the same order."""
    return [
        # The API server drops an empty value, which would then show as drift.
        {
            "key": taint.key,
            "operator": "Equal",
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in taints
    ]


def blocking_taints(taints: Iterable[Taint], tolerated: Sequence[Toleration] = ()) -> list[Taint]:
    """Return the taints that keep the pods of a DaemonSet with these tolerations off a node."""
    return [
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule"
        and not taint.key.startswith(_NODE_CONDITIONS)
        and not any(_matches(toleration, taint) for toleration in tolerated)
    ]


def format_taint(taint: Taint) -> str:
    """Format a taint as kubectl does: `key=value:effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return (toleration.value or "") == (taint.value or "")
