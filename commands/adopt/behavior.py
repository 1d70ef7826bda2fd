"""The behavior of an HPA in full: where it says nothing, Kubernetes' own defaults hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoscaling.settings.autoscaler import ScaleDown, ScaleUp


def in_full(behavior: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Both directions, with each field that counts; keys as the API has them.

    The defaults of the settings are the API's own (`pkg/apis/autoscaling/v2/defaults.go`), with 300 s for the
    controller's `--horizontal-pod-autoscaler-downscale-stabilization`.
    """
    defaults = {"scaleUp": ScaleUp(), "scaleDown": ScaleDown()}
    return {
        side: {
            **rules.model_dump(by_alias=True),
            "selectPolicy": "Max",
            **{key: value for key, value in ((behavior or {}).get(side) or {}).items() if value is not None},
        }
        for side, rules in defaults.items()
    }
