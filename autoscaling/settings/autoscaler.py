"""The autoscaler (HPA) of a service: its settings, and the checks on them.

Its metrics are in `autoscaler_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from autoscaling.hpa.behavior import DEFAULT_SCALE_DOWN_WINDOW
from autoscaling.settings.autoscaler_metrics import MetricTarget
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Count, Int, Model, Name, duration_seconds

if TYPE_CHECKING:
    from autoscaling.settings.services import Service
    from autoscaling.settings.stack import Settings

Window = Annotated[Int, Field(ge=0, le=3600)]


class ScalingPolicy(Model):
    """A limit on scaling: at most `value` pods, or percent of the pods, in `periodSeconds`."""

    type: Literal["Pods", "Percent"]
    """Unit of `value`."""
    value: Annotated[Int, Field(ge=1, le=10000)]
    """Number of pods, or percent of the current pods."""
    period_seconds: Annotated[Int, Field(ge=1, le=1800)]
    """Length of the period, in seconds, in which the HPA adds or removes at most `value`."""


class ScaleUp(Model):
    """Scaling policies for adding replicas; the defaults are Kubernetes' own."""

    stabilization_window_seconds: Window = 0
    """Seconds for which the metric must need more replicas before the HPA adds them."""
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Pods", value=4, periodSeconds=15),
        ScalingPolicy(type="Percent", value=100, periodSeconds=15),
    ]
    """Limits on scaling up. The HPA follows the policy that allows the largest change."""


class ScaleDown(Model):
    """Scaling policies for removing replicas; the defaults are Kubernetes' own."""

    stabilization_window_seconds: Window = DEFAULT_SCALE_DOWN_WINDOW
    """Seconds for which the metric must need fewer replicas before the HPA removes some."""
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Percent", value=100, periodSeconds=15)
    ]
    """Limits on scaling down. The HPA follows the policy that allows the largest change."""


class Autoscaler(Model):
    """The HPA of a service."""

    name: Name | None = None
    """Name of the HPA; by default `<name of the service>-hpa`."""
    metrics: Annotated[list[MetricTarget], Field(min_length=1)] = [
        MetricTarget(name="DCGM_CUSTOM_PROCESS_SM_UTIL", target=Decimal(20))
    ]
    """Metrics to scale on. The HPA follows the metric that needs the most replicas."""
    min_replicas: Count = 1
    """Minimum number of replicas."""
    max_replicas: Count = 10
    """Maximum number of replicas; their GPUs must fit into the pool."""
    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()


def autoscaler_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error of the autoscalers, except for their metrics."""
    for index, service in enumerate(settings.services):
        key = f"services[{index}]"
        yield from _replicas(service, key)
        yield from _scale_down_window(service, key, settings)
        yield from _behavior(service, key, settings)


def _replicas(service: Service, key: str) -> Iterator[Finding]:
    low, high = service.autoscaler.min_replicas, service.autoscaler.max_replicas
    if low > high:
        yield Finding(
            f"{key}.autoscaler.minReplicas is {low}, above maxReplicas ({high}): lower minReplicas or raise "
            "maxReplicas.",
            ("services",),
        )


def _scale_down_window(service: Service, key: str, settings: Settings) -> Iterator[Finding]:
    fixed = settings.cluster.autoscaling_api == "v2beta1"
    window = DEFAULT_SCALE_DOWN_WINDOW if fixed else service.autoscaler.scale_down.stabilization_window_seconds
    if not service.startup_time or window >= duration_seconds(service.startup_time):
        return
    effect = "Pods would be removed before their replacements are Ready"
    if fixed:
        yield Finding(
            f"{key}.startupTime is {service.startup_time}, but with cluster.autoscalingApi set to v2beta1, the "
            f"scale-down window is always {window}s. {effect}: set autoscalingApi to v2, or make startup faster.",
            ("services", "cluster"),
        )
    else:
        yield Finding(
            f"{key}.autoscaler.scaleDown.stabilizationWindowSeconds is {window}, less than startupTime "
            f"({service.startup_time}). {effect}: raise the window.",
            ("services",),
        )


def _behavior(service: Service, key: str, settings: Settings) -> Iterator[Finding]:
    if settings.cluster.autoscaling_api == "v2":
        return
    for name, alias in (("scale_up", "scaleUp"), ("scale_down", "scaleDown")):
        if name in service.autoscaler.model_fields_set:
            yield Finding(
                f"{key}.autoscaler.{alias} needs cluster.autoscalingApi v2 (v2beta1 does not have the field "
                f"`behavior`): remove {alias}, or set autoscalingApi to v2.",
                ("services", "cluster"),
            )
