"""Which pods a selector of Kubernetes means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector means pods of these labels: an empty one means all, and none means none.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/
    """
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(one, labels) for one in selector.get("matchExpressions") or [])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = expression["key"]
    among = labels.get(key) in (expression.get("values") or [])
    return {"In": among, "NotIn": not among, "Exists": key in labels, "DoesNotExist": key not in labels}[
        expression["operator"]
    ]
