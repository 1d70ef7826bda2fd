"""Settings of a stack whose services use the platform of another stack.

The stack sets its services, the platform stack exports the rest, and both together must pass the same checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from autoscaling.settings.stack import Settings

PLATFORM_KEYS = ("region", "cluster", "gpuNodePool", "prometheus", "metricsAdapter", "budget")
"""Settings of a platform stack; a stack with `platform` must not set them."""

_EXPORTED: Mapping[str, Any] = {
    "region": True,
    "cluster": {"autoscaling_api", "api_endpoint", "temporary_credential"},
    "gpu_node_pool": True,
    "metrics_adapter": {"rules", "labels", "extra_rules", "idle_as_zero", "relist_interval", "expose"},
}
"""Settings that the checks of services need. They are not secrets."""

_STAND_INS: Mapping[str, Any] = {
    "region": "cn-hangzhou",
    "cluster": {"id": "c0"},
    "gpuNodePool": {"instanceTypes": ["ecs.gn6i-c4g1.xlarge"], "autoscaling": {"max": 1}},
    "services": [],
}


def is_unset(value: Any) -> bool:
    """Return whether a value is what the engine passes for a key that is not set."""
    return value in (None, "", {})


def uses_a_platform(values: Mapping[str, Any]) -> bool:
    """Return whether the stack uses the platform of another stack."""
    return not is_unset(values.get("platform"))


def foreign_keys(values: Mapping[str, Any]) -> Iterator[str]:
    """Refuse each setting that belongs to the platform stack, one sentence each."""
    for key in PLATFORM_KEYS:
        if not is_unset(values.get(key)):
            yield (
                f"{key} can't be set here: it comes from the stack that `platform` names, which all stacks on that "
                f"platform share. Remove {key}; or remove `platform`, to give this stack a platform of its own."
            )


def with_stand_ins(values: Mapping[str, Any], unknown: Collection[str]) -> dict[str, Any]:
    """Return the values with placeholders for unknown settings that the models require."""
    known = {key: value for key, value in values.items() if key not in unknown}
    return known | {key: value for key, value in _STAND_INS.items() if key in unknown}


def exported_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that a platform stack exports, as a user would write them."""
    exported: dict[str, Any] = settings.model_dump(by_alias=True, exclude_unset=True, include=dict(_EXPORTED))
    return exported


def joined(settings: Settings, exported: Mapping[str, Any], cluster_id: str) -> dict[str, Any]:
    """Return the settings of a stack and of its platform together, as for a single stack."""
    own = settings.model_dump(by_alias=True, exclude_unset=True, include={"services", "wait_for_metrics"})
    # Earlier versions export prometheus.scrapeInterval.
    platform = {key: value for key, value in _whole(exported).items() if key != "prometheus"}
    return {**platform, "cluster": {**exported.get("cluster", {}), "id": cluster_id}, **own}


def _whole(value: Any) -> Any:
    """Return whole numbers as integers: numbers in outputs come back as floats."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def used_metrics(settings: Settings, metric_resources: Sequence[str]) -> list[str]:
    """Return the platform's `<resource>/<metric>` entries that the stack's services use."""
    uses = {use.exposed_name for service in settings.services for use in service.autoscaler.metrics}
    return [name for name in metric_resources if name.partition("/")[2] in uses]


def unexposed_metrics(settings: Settings, metric_resources: Sequence[str]) -> Iterator[str]:
    """Refuse each metric of a service that the platform's adapter does not expose for pods, one sentence each.

    Args:
        settings: the stack's settings.
        metric_resources: `<resource>/<metric>` entries that the platform stack exports.
    """
    exposed = {name.partition("/")[2] for name in metric_resources if name.startswith("pods/")}
    for index, service in enumerate(settings.services):
        for position, use in enumerate(service.autoscaler.metrics):
            if use.exposed_name not in exposed:
                yield (
                    f"services[{index}].autoscaler.metrics[{position}] reads {use.exposed_name}, which the platform "
                    f"{settings.platform} does not expose for pods: choose one of {', '.join(sorted(exposed))}, or add "
                    f"the metric to metricsAdapter.expose of stack {settings.platform} and run `pulumi up` there."
                )
