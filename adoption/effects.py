"""What `pulumi up` would change in a Kubernetes object, where that matters to those who use it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adoption.live import Object

_TAKEN_OVER = ("kubectl", "before-first-apply")
"""Field managers whose fields the Kubernetes provider takes over, and takes away where the program has none."""

_ALLOCATED = re.compile(r"^spec\.(clusterIP|clusterIPs(\[\d+\])?|healthCheckNodePort|ports\[\d+\]\.nodePort)$")
"""Fields of a Service that Kubernetes fills in, for each Service in another way, and keeps."""

_FIRST_PATHS = 4


def effects(live: Object, wanted: Object) -> Iterator[str]:
    """A sentence on each change that a preview does not make plain.

    Args:
        live: the object as it is.
        wanted: what the API server would make of the program's inputs.
    """
    what = f"{live['kind']} {live['metadata']['namespace']}/{live['metadata']['name']}"
    if live["kind"] == "Deployment":
        changed = list(_differences(live["spec"]["template"], wanted["spec"]["template"], ("spec", "template")))
        if changed:
            yield f"the pods of {what} would be replaced one by one, since these differ: {_some(changed)}."
    if live["kind"] == "Service":
        changed = [one for one in _differences(live["spec"], wanted["spec"], ("spec",)) if not _ALLOCATED.search(one)]
        if changed:
            yield f"{what} would change in {_some(changed)}."
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


def _differences(live: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(live.keys() | wanted.keys()):
            yield from _differences(live.get(key), wanted.get(key), (*path, key))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from _differences(one, other, (*path[:-1], f"{path[-1]}[{index}]"))
    # An empty map is what the API server makes of none.
    elif live != wanted and (live or wanted):
        yield ".".join(path)


def _some(paths: Sequence[str]) -> str:
    rest = len(paths) - _FIRST_PATHS
    return ", ".join(paths[:_FIRST_PATHS]) + (f" and {rest} more" if rest > 0 else "")
