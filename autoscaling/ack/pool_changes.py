"""What a change of a node pool does not reach: the provider sends it, and nodes or servers go on as before."""

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
"""Settings of the pool by the provider's inputs that nodes get when they are made."""

_LABELS = {SCHEDULE_LABEL: "cardMode", DRIVER_LABEL: "driverVersion"}
"""The same by labels. Those of living nodes don't change, with `updateNodes` neither:
https://github.com/pulumi/pulumi-alicloud/issues/924."""


def not_reached(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on each thing that an update of a pool leaves as it is.

    Args:
        old: the provider's inputs as they were.
        new: as they will be.
    """
    changed = {setting for name, setting in _SETTINGS.items() if old.get(name) != new.get(name)}
    before, after = _labels(old), _labels(new)
    changed |= {setting for key, setting in _LABELS.items() if before.get(key) != after.get(key)}
    if changed:
        yield (
            f"gpuNodePool: a change of {', '.join(sorted(changed))} reaches new nodes only: drain and remove those "
            "that are there, and the pool brings new ones."
        )
    # https://github.com/aliyun/terraform-provider-alicloud/issues/5045
    if old.get("taints") and not new.get("taints"):
        yield (
            "gpuNodePool.taints: the provider can't empty the list, so that old and new nodes keep the taints, and the "
            "services' pods lose their toleration with this run: take the taints off the pool and its nodes in ACK's "
            "console before it."
        )


def _labels(inputs: Mapping[str, Any]) -> dict[str, str]:
    # Nodes without the label are in the mode that it is for: a pool made by hand need not have it.
    default = {SCHEDULE_LABEL: CARD_MODES["exclusive"].schedule}
    return default | {label["key"]: label["value"] for label in inputs.get("labels") or []}
