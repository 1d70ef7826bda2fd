"""Find services of other owners that use the platform of a stack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from live.kept_rules import metrics_read
from live.other_owners import stack_of


def users_of(metrics: Collection[str], autoscalers: Iterable[Mapping[str, Any]], stack: str) -> Iterator[str]:
    """Yield each HPA of another owner that needs the platform, with what it scales.

    An HPA of another stack counts whatever it reads, since its pods run on the platform's nodes.

    Args:
        metrics: names under which the platform's adapter exposes metrics for pods.
        autoscalers: HPAs of all namespaces, in any version of the API that has their metrics.
        stack: the name that the platform's own stack writes on its HPAs.
    """
    for autoscaler in autoscalers:
        metadata, spec = autoscaler["metadata"], autoscaler["spec"]
        maker = stack_of(metadata)
        if maker == stack or (maker is None and set(metrics_read(autoscaler)).isdisjoint(metrics)):
            continue
        namespace, target = metadata["namespace"], spec["scaleTargetRef"]
        made_by = f"stack {maker}" if maker else "no stack"
        yield f"{target['kind']} {namespace}/{target['name']} (HPA {namespace}/{metadata['name']} of {made_by})"
