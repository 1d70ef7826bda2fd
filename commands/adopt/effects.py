"""Changes of `pulumi up` to a Kubernetes object that its users would notice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaling.hpa.behavior import with_defaults
from commands.adopt.live_objects import named
from live.cluster_client import Object

_KUBECTL = ("kubectl", "before-first-apply")
"""Field managers whose fields the Kubernetes provider takes over; it removes those that the program does not set."""

_IGNORED = {
    # Replaced pods have a sentence of their own; the HPA owns the replica count.
    "Deployment": re.compile(r"^spec\.(template\b|replicas$)"),
    # Kubernetes fills these in for each Service, and keeps them.
    "Service": re.compile(r"^spec\.(clusterIP|clusterIPs(\[\d+\])?|healthCheckNodePort|ports\[\d+\]\.nodePort)$"),
}
"""Fields whose changes are not reported, by kind."""

Change = tuple[str, Any, Any]
"""Path, live value, wanted value."""


def effects(live: Object, wanted: Object) -> Iterator[str]:
    """Describe each change that a preview does not make plain, by the program's inputs as they would be stored."""
    kind, what = live["kind"], named(live)
    if kind == "Deployment":
        pods = list(_changes(live["spec"]["template"], wanted["spec"]["template"], ("spec", "template")))
        if pods:
            # Paths only: a value of the environment may be a secret.
            paths = ", ".join(path for path, *_ in pods)
            yield f"the pods of {what} would be replaced one by one, since these differ: {paths}."
    before = live["spec"]
    if "behavior" in wanted["spec"]:
        if not before.get("behavior"):
            yield (
                f"{what} has no behavior and would get Kubernetes' defaults: with few replicas it could add 4 in 15 s, "
                "where it now goes to 4 or to twice the number."
            )
        before = {**before, "behavior": with_defaults(before.get("behavior"))}
    ignored = _IGNORED.get(kind)
    changes = [
        change for change in _changes(before, wanted["spec"], ("spec",)) if not (ignored and ignored.search(change[0]))
    ]
    if changes:
        yield f"{what} would change in {', '.join(_shown(change) for change in changes)}."
    for part in ("labels", "annotations"):
        lost = sorted(_owned(live, part) - set(wanted["metadata"].get(part) or {}))
        if lost:
            yield f"{what} would lose its {part} {', '.join(lost)}, for which there is no setting."


def _owned(live: Object, part: str) -> set[str]:
    """Keys of the metadata that kubectl set."""
    fields = [
        ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{part}") or {}
        for entry in live["metadata"].get("managedFields") or []
        if str(entry.get("manager")).startswith(_KUBECTL) and not entry.get("subresource")
    ]
    keys = {key.removeprefix("f:") for found in fields for key in found if key.startswith("f:")}
    # Only kubectl reads its own note.
    return keys - {"kubectl.kubernetes.io/last-applied-configuration"}


def _changes(live: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(live.keys() | wanted.keys()):
            yield from _changes(live.get(key), wanted.get(key), (*path, key))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (old, new) in enumerate(zip(live, wanted, strict=True)):
            yield from _changes(old, new, (*path[:-1], f"{path[-1]}[{index}]"))
    # The API server stores an empty map for a missing one.
    elif live != wanted and (live or wanted):
        yield ".".join(path), live, wanted


def _shown(change: Change) -> str:
    path, *values = change
    old, new = ("none" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values)
    return f"{path} ({old} -> {new})"
