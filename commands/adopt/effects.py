"""What `pulumi up` would change in a Kubernetes object, where that matters to those who use it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaling.hpa.behavior import in_full
from commands.adopt.cluster import Object

_TAKEN_OVER = ("kubectl", "before-first-apply")
"""Field managers whose fields the Kubernetes provider takes over, and takes away where the program has none."""

_LEFT = {
    # Replaced one by one, which is told by itself; the number is the HPA's business.
    "Deployment": re.compile(r"^spec\.(template\b|replicas$)"),
    # What Kubernetes fills in, for each Service in another way, and keeps.
    "Service": re.compile(r"^spec\.(clusterIP|clusterIPs(\[\d+\])?|healthCheckNodePort|ports\[\d+\]\.nodePort)$"),
}
"""Fields of which no change is told, by kind."""

_SHORT = {"HorizontalPodAutoscaler": "HPA"}

Change = tuple[str, Any, Any]
"""Path, value as it is, value that is wanted."""


def effects(live: Object, wanted: Object) -> Iterator[str]:
    """A sentence on each change that a preview does not make plain.

    Args:
        live: the object as it is.
        wanted: what the API server would make of the program's inputs.
    """
    kind = live["kind"]
    what = f"{_SHORT.get(kind, kind)} {live['metadata']['namespace']}/{live['metadata']['name']}"
    if kind == "Deployment":
        pods = list(_changes(live["spec"]["template"], wanted["spec"]["template"], ("spec", "template")))
        if pods:
            # Without values: one of the environment may be a secret.
            paths = ", ".join(path for path, *_ in pods)
            yield f"the pods of {what} would be replaced one by one, since these differ: {paths}."
    before = live["spec"]
    if "behavior" in wanted["spec"]:
        if not before.get("behavior"):
            yield (
                f"{what} has no behavior, and would get Kubernetes' defaults as one: of few replicas it could add 4 in "
                "15 s, where it now goes to 4 or to twice the number."
            )
        before = {**before, "behavior": in_full(before.get("behavior"))}
    changes = [
        one for one in _changes(before, wanted["spec"], ("spec",)) if not (kind in _LEFT and _LEFT[kind].search(one[0]))
    ]
    if changes:
        yield f"{what} would change in {', '.join(_shown(one) for one in changes)}."
    for part in ("labels", "annotations"):
        lost = sorted(_owned(live, part) - set(wanted["metadata"].get(part) or {}))
        if lost:
            yield f"{what} would lose its {part} {', '.join(lost)}, for which there is no setting."


def _owned(live: Object, part: str) -> set[str]:
    """Keys of the metadata that were set by kubectl."""
    fields = [
        ((one.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{part}") or {}
        for one in live["metadata"].get("managedFields") or []
        if str(one.get("manager")).startswith(_TAKEN_OVER) and not one.get("subresource")
    ]
    keys = {key.removeprefix("f:") for found in fields for key in found if key.startswith("f:")}
    # kubectl's own note, which nobody else reads.
    return keys - {"kubectl.kubernetes.io/last-applied-configuration"}


def _changes(live: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(live.keys() | wanted.keys()):
            yield from _changes(live.get(key), wanted.get(key), (*path, key))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from _changes(one, other, (*path[:-1], f"{path[-1]}[{index}]"))
    # An empty map is what the API server makes of none.
    elif live != wanted and (live or wanted):
        yield ".".join(path), live, wanted


def _shown(change: Change) -> str:
    path, *values = change
    old, new = ("none" if one is None else one if isinstance(one, str) else json.dumps(one) for one in values)
    return f"{path} ({old} -> {new})"
