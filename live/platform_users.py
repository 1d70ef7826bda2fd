"""Who else's services use the platform of a stack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from live.kept_rules import metrics_read
from live.other_owners import stack_of


def users_of(metrics: Collection[str], autoscalers: Iterable[Mapping[str, Any]], stack: str) -> Iterator[str]:
    """Each HPA of others that would stand still without the platform, with what it scales.

    One of another stack counts whatever it reads, for its pods are on the platform's nodes.

    Args:
        metrics: names under which the platform's adapter exposes metrics for pods.
        autoscalers: HPAs of the whole cluster, in whichever version of the API that has their metrics.
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
