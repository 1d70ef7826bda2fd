"""The HorizontalPodAutoscaler on GPU metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.autoscaling import v2, v2beta1

from autoscaling.settings.autoscaler import ScaleDown, ScaleUp
from autoscaling.settings.services import Service
from components.takeover import takeover_annotations
from live.other_owners import STACK_ANNOTATION


@dataclass(frozen=True, kw_only=True)
class GpuAutoscalerArgs:
    """What to scale, on what, and between which numbers."""

    autoscaler_name: str
    # the name that the HPA carries, such as ackgpu/dev
    stack: str
    namespace: pulumi.Input[str]
    # name of the Deployment, from its output
    deployment: pulumi.Input[str]
    # each metric under the name by which the adapter exposes it for pods, and its average over the pods, in its unit
    metrics: Mapping[str, Decimal]
    min_replicas: int
    max_replicas: int
    # v2beta1, for Kubernetes below 1.23, has no behavior
    api: Literal["v2", "v2beta1"] = "v2"
    scale_up: ScaleUp = field(default_factory=ScaleUp)
    scale_down: ScaleDown = field(default_factory=ScaleDown)
    # an adopted HPA stays when the stack is destroyed
    retain_on_delete: bool = False

    @classmethod
    def of(
        cls, service: Service, deployment: pulumi.Input[str], api: Literal["v2", "v2beta1"], stack: str
    ) -> GpuAutoscalerArgs:
        """The args of a service of the settings."""
        autoscaler = service.autoscaler
        return cls(
            autoscaler_name=service.autoscaler_name,
            stack=stack,
            namespace=service.namespace,
            deployment=deployment,
            metrics={one.exposed_name: one.target for one in autoscaler.metrics},
            min_replicas=autoscaler.min_replicas,
            max_replicas=autoscaler.max_replicas,
            api=api,
            scale_up=autoscaler.scale_up,
            scale_down=autoscaler.scale_down,
            retain_on_delete=service.adopted or service.retain_on_delete,
        )


class GpuAutoscaler(pulumi.ComponentResource):
    """An HPA. Needs a Kubernetes provider and the adapter."""

    autoscaler: v2.HorizontalPodAutoscaler | v2beta1.HorizontalPodAutoscaler

    def __init__(self, name: str, args: GpuAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:GpuAutoscaler", name, None, opts)
        create = _create_v2 if args.api == "v2" else _create_v2beta1
        # One under another name is no HPA for a second: with two on the same pods Kubernetes lets none scale, and the
        # old one would go only when the new one reads its metric.
        options = pulumi.ResourceOptions(
            parent=self, delete_before_replace=True, retain_on_delete=args.retain_on_delete
        )
        self.autoscaler = create(f"{name}-hpa", args, options)


def _create_v2(name: str, args: GpuAutoscalerArgs, options: pulumi.ResourceOptions) -> v2.HorizontalPodAutoscaler:
    return v2.HorizontalPodAutoscaler(
        name,
        metadata=_metadata(args),
        spec=v2.HorizontalPodAutoscalerSpecArgs(
            scale_target_ref=v2.CrossVersionObjectReferenceArgs(
                api_version="apps/v1", kind="Deployment", name=args.deployment
            ),
            min_replicas=args.min_replicas,
            max_replicas=args.max_replicas,
            metrics=[
                v2.MetricSpecArgs(
                    type="Pods",
                    pods=v2.PodsMetricSourceArgs(
                        metric=v2.MetricIdentifierArgs(name=metric),
                        # `Utilization`, as in the guide, is accepted for pods but means nothing there.
                        target=v2.MetricTargetArgs(type="AverageValue", average_value=f"{target:f}"),
                    ),
                )
                for metric, target in args.metrics.items()
            ],
            # Without a behavior one sync adds at most max(2 x current, 4) replicas.
            behavior=v2.HorizontalPodAutoscalerBehaviorArgs(
                scale_up=_scaling_rules(args.scale_up), scale_down=_scaling_rules(args.scale_down)
            ),
        ),
        opts=options,
    )


def _create_v2beta1(
    name: str, args: GpuAutoscalerArgs, options: pulumi.ResourceOptions
) -> v2beta1.HorizontalPodAutoscaler:
    return v2beta1.HorizontalPodAutoscaler(
        name,
        metadata=_metadata(args),
        spec=v2beta1.HorizontalPodAutoscalerSpecArgs(
            scale_target_ref=v2beta1.CrossVersionObjectReferenceArgs(
                api_version="apps/v1", kind="Deployment", name=args.deployment
            ),
            min_replicas=args.min_replicas,
            max_replicas=args.max_replicas,
            metrics=[
                v2beta1.MetricSpecArgs(
                    type="Pods",
                    pods=v2beta1.PodsMetricSourceArgs(metric_name=metric, target_average_value=f"{target:f}"),
                )
                for metric, target in args.metrics.items()
            ],
        ),
        opts=options,
    )


def _metadata(args: GpuAutoscalerArgs) -> kubernetes.meta.v1.ObjectMetaArgs:
    return kubernetes.meta.v1.ObjectMetaArgs(
        name=args.autoscaler_name,
        namespace=args.namespace,
        annotations={STACK_ANNOTATION: args.stack, **takeover_annotations(args.retain_on_delete)},
    )


def _scaling_rules(scaling: ScaleUp | ScaleDown) -> v2.HPAScalingRulesArgs:
    return v2.HPAScalingRulesArgs(
        stabilization_window_seconds=scaling.stabilization_window_seconds,
        select_policy="Max",
        policies=[
            v2.HPAScalingPolicyArgs(type=policy.type, value=policy.value, period_seconds=policy.period_seconds)
            for policy in scaling.policies
        ],
    )
