"""The HorizontalPodAutoscaler on GPU metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.autoscaling import v2, v2beta1

from live.other_owners import STACK_ANNOTATION


@dataclass(frozen=True, kw_only=True)
class ScalingPolicy:
    """A limit on the change within `period_seconds`: `value` pods, or `value` percent of the pods."""

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


@dataclass(frozen=True, kw_only=True)
class ScalingRules:
    """Stabilization window and policies of a direction."""

    stabilization_window_seconds: int
    # the policy that allows the largest change applies
    policies: Sequence[ScalingPolicy]


@dataclass(frozen=True, kw_only=True)
class GpuAutoscalerArgs:
    """The scale target, the metrics and the limits of an HPA."""

    autoscaler_name: str
    # name of the stack, such as ackgpu/dev, for the HPA's annotation
    stack: str
    namespace: pulumi.Input[str]
    # name of the Deployment, from its output
    deployment: pulumi.Input[str]
    # each metric, by the name that the adapter exposes for pods, and its target average in the metric's unit
    metrics: Mapping[str, Decimal]
    min_replicas: int
    max_replicas: int
    # v2beta1, for Kubernetes below 1.23, has no behavior
    api: Literal["v2", "v2beta1"] = "v2"
    # None: Kubernetes' defaults
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None
    # the HPA existed before the stack: it stays when the stack is destroyed, and `up` takes over its fields
    adopted: bool = False
    # the HPA stays when the stack is destroyed
    retain_on_delete: bool = False


class GpuAutoscaler(pulumi.ComponentResource):
    """An HPA. Requires a Kubernetes provider and the adapter."""

    autoscaler: v2.HorizontalPodAutoscaler | v2beta1.HorizontalPodAutoscaler
    autoscaler_name: pulumi.Output[str]

    def __init__(self, name: str, args: GpuAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:GpuAutoscaler", name, None, opts)
        create = _create_v2 if args.api == "v2" else _create_v2beta1
        # Kubernetes does not scale while two HPAs select the same pods, and `up` would delete the old HPA only after
        # the new HPA reads its metric.
        options = pulumi.ResourceOptions(
            parent=self, delete_before_replace=True, retain_on_delete=args.adopted or args.retain_on_delete
        )
        self.autoscaler = create(f"{name}-hpa", args, options)
        self.autoscaler_name = self.autoscaler.metadata.name
        self.register_outputs({"hpa": self.autoscaler_name})


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
                        # The API accepts the guide's type `Utilization` for pods, but it has no effect.
                        target=v2.MetricTargetArgs(type="AverageValue", average_value=f"{target:f}"),
                    ),
                )
                for metric, target in args.metrics.items()
            ],
            # Without a behavior, a sync scales up to at most max(2 x current, 4) replicas.
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
    # Lets the provider take over fields that kubectl or a console has set; otherwise they conflict.
    takeover = {"pulumi.com/patchForce": "true"} if args.adopted else {}
    return kubernetes.meta.v1.ObjectMetaArgs(
        name=args.autoscaler_name,
        namespace=args.namespace,
        annotations={STACK_ANNOTATION: args.stack, **takeover},
    )


def _scaling_rules(rules: ScalingRules | None) -> v2.HPAScalingRulesArgs | None:
    if rules is None:
        return None
    return v2.HPAScalingRulesArgs(
        stabilization_window_seconds=rules.stabilization_window_seconds,
        select_policy="Max",
        policies=[
            v2.HPAScalingPolicyArgs(type=policy.type, value=policy.value, period_seconds=policy.period_seconds)
            for policy in rules.policies
        ],
    )
