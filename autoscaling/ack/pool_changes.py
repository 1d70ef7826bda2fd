"""Warnings on updates of a node pool that do not affect existing nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL
from autoscaling.ack.node_labels import DRIVER_LABEL

_SETTINGS = {
    "taints": "taints",
    "keyName": "keyName",
    "systemDiskCategory": "systemDisk",
    "systemDiskSize": "systemDisk",
    "spotStrategy": "spot",
    "spotPriceLimits": "spot",
}
"""Provider inputs that apply only when a node is created, with their settings."""

_LABELS = {SCHEDULE_LABEL: "cardMode", DRIVER_LABEL: "driverVersion"}
"""Labels that apply only when a node is created, even with `updateNodes`, with their settings:
https://github.com/pulumi/pulumi-alicloud/issues/924."""


def update_warnings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each part of an update that does not affect existing nodes.

    Args:
        old: current inputs of the provider.
        new: planned inputs of the provider.
    """
    changed = {setting for name, setting in _SETTINGS.items() if old.get(name) != new.get(name)}
    before, after = _labels(old), _labels(new)
    changed |= {setting for key, setting in _LABELS.items() if before.get(key) != after.get(key)}
    if changed:
        yield (
            f"gpuNodePool: changes to {', '.join(sorted(changed))} apply to new nodes only. To change the existing "
            "nodes, drain and remove them; the pool replaces them."
        )
    # https://github.com/aliyun/terraform-provider-alicloud/issues/5045
    if old.get("taints") and not new.get("taints"):
        yield (
            "gpuNodePool.taints: the provider can't clear the list of taints, so existing nodes keep theirs and new "
            "nodes still get them. But this update removes the tolerations from the services' pods, which then "
            "can't run on these nodes. First remove the taints from the pool and its nodes in the ACK console."
        )


def _labels(inputs: Mapping[str, Any]) -> dict[str, str]:
    # Nodes without the label are in this mode, for example in a pool created by hand.
    default = {SCHEDULE_LABEL: CARD_MODES["exclusive"].schedule}
    return default | {label["key"]: label["value"] for label in inputs.get("labels") or []}
