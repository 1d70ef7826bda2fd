"""Changes that `pulumi up` would make to a live Kubernetes object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaling.hpa.behavior import with_defaults
from commands.adopt.live_objects import display_name
from live.cluster_client import Object

_KUBECTL = ("kubectl", "before-first-apply")
"""The Kubernetes provider takes over the fields of these managers and removes those that the program does not set."""

_IGNORED = {
    # Replaced pods have their own note; the HPA owns the replica count.
    "Deployment": re.compile(r"^spec\.(template\b|replicas$)"),
    # Kubernetes sets these fields and keeps them.
    "Service": re.compile(r"^spec\.(clusterIP|clusterIPs(\[\d+\])?|healthCheckNodePort|ports\[\d+\]\.nodePort)$"),
}
"""Fields whose changes are not reported, by kind."""

Change = tuple[str, Any, Any]
"""Path, live value, wanted value."""


def effects(live: Object, wanted: Object) -> Iterator[str]:
    """Describe the changes that a preview does not show clearly.

    Args:
        live: the object as it is.
        wanted: the program's inputs as the API server would store them.
    """
    kind, name = live["kind"], display_name(live)
    if kind == "Deployment":
        pods = list(_changes(live["spec"]["template"], wanted["spec"]["template"], ("spec", "template")))
        if pods:
            # Paths only: an environment variable may have a secret value.
            paths = ", ".join(path for path, *_ in pods)
            yield f"{name} would replace its pods one at a time, because these fields differ: {paths}."
    before = live["spec"]
    if "behavior" in wanted["spec"]:
        if not before.get("behavior"):
            yield (
                f"{name} has no `behavior` and would get the defaults of Kubernetes. With few replicas, {name} could "
                "then add 4 replicas every 15 s. Now a sync scales up to at most 4 replicas, or twice the current "
                "number."
            )
        before = {**before, "behavior": with_defaults(before.get("behavior"))}
    ignored = _IGNORED.get(kind)
    changes = [
        change for change in _changes(before, wanted["spec"], ("spec",)) if not (ignored and ignored.search(change[0]))
    ]
    if changes:
        yield f"{name} would change {', '.join(_describe(change) for change in changes)}."
    for part in ("labels", "annotations"):
        lost = sorted(_kubectl_keys(live, part) - set(wanted["metadata"].get(part) or {}))
        if lost:
            yield f"{name} would lose its {part} {', '.join(lost)}: no setting can keep them."


def _kubectl_keys(live: Object, part: str) -> set[str]:
    """Return the metadata keys that kubectl set."""
    fields = [
        ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{part}") or {}
        for entry in live["metadata"].get("managedFields") or []
        if str(entry.get("manager")).startswith(_KUBECTL) and not entry.get("subresource")
    ]
    keys = {key.removeprefix("f:") for managed in fields for key in managed if key.startswith("f:")}
    # Only kubectl uses this annotation.
    return keys - {"kubectl.kubernetes.io/last-applied-configuration"}


def _changes(live: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(live.keys() | wanted.keys()):
            yield from _changes(live.get(key), wanted.get(key), (*path, key))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (old, new) in enumerate(zip(live, wanted, strict=True)):
            yield from _changes(old, new, (*path[:-1], f"{path[-1]}[{index}]"))
    # The API server stores a missing map as an empty map.
    elif live != wanted and (live or wanted):
        yield ".".join(path), live, wanted


def _describe(change: Change) -> str:
    path, *values = change
    old, new = ("none" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values)
    return f"{path} ({old} -> {new})"
