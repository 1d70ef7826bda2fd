"""GPUs that are kept warm: low-priority placeholder pods, which real replicas push out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from autoscaling.ack.node_labels import POOL_LABEL
from autoscaling.ack.placeholders import (
    PLACEHOLDERS_NAMESPACE,
    PRIORITY,
    pause_image,
    placeholder_limits,
    placeholders_name,
)
from autoscaling.ack.taints import tolerations
from autoscaling.settings.gpu_node_pool import GpuNodePool

_LABEL = "ackgpu/warm-capacity"


@dataclass(frozen=True, kw_only=True)
class WarmCapacityArgs:
    """How many cards of which pool."""

    # name of the PriorityClass and of the Deployment
    capacity_name: str
    # id of the pool, from its output
    node_pool_id: pulumi.Input[str]
    # pods, with a card each
    gpus: int
    # GPU resources of each pod: a whole card
    gpu_limits: Mapping[str, str]
    # as a pod's manifest has them
    tolerations: Sequence[Mapping[str, str]]
    image: str

    @classmethod
    def of(cls, pool: GpuNodePool, node_pool_id: pulumi.Input[str], region: str) -> WarmCapacityArgs:
        """The args of a pool of the settings that keeps GPUs warm.

        Raises:
            ValueError: what a whole card of the pool is can't be said; the checks of the settings refuse it.
        """
        limits = placeholder_limits(pool.card_mode, pool.instance_types)
        if limits is None:
            raise ValueError(f"a card of the pool {pool.name} can't be kept for a placeholder")
        return cls(
            capacity_name=placeholders_name(pool.name),
            node_pool_id=node_pool_id,
            gpus=pool.warm_gpus,
            gpu_limits=limits,
            tolerations=tolerations(pool.taints),
            image=pause_image(region),
        )


class WarmCapacity(pulumi.ComponentResource):
    """PriorityClass and Deployment of the placeholders. Needs a Kubernetes provider."""

    deployment: kubernetes.apps.v1.Deployment

    def __init__(self, name: str, args: WarmCapacityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:WarmCapacity", name, None, opts)
        priority = kubernetes.scheduling.v1.PriorityClass(
            f"{name}-priority",
            metadata={"name": args.capacity_name},
            value=PRIORITY,
            # A placeholder takes what is free, and nothing from anybody.
            preemption_policy="Never",
            description="Placeholders that keep GPUs warm: any other pod pushes them out.",
            # Its value can't be changed, and its name is taken.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        labels = {_LABEL: args.capacity_name}
        self.deployment = kubernetes.apps.v1.Deployment(
            f"{name}-placeholders",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.capacity_name,
                namespace=PLACEHOLDERS_NAMESPACE,
                labels=labels,
                # They wait for as long as real replicas have every GPU that the pool can have.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=kubernetes.apps.v1.DeploymentSpecArgs(
                replicas=args.gpus,
                selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels=labels),
                # New ones beside the old would bring nodes for a moment.
                strategy=kubernetes.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                template=kubernetes.core.v1.PodTemplateSpecArgs(
                    metadata=kubernetes.meta.v1.ObjectMetaArgs(labels=labels),
                    spec=_placeholder(args, priority.metadata.name),
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _placeholder(args: WarmCapacityArgs, priority_class: pulumi.Input[str]) -> kubernetes.core.v1.PodSpecArgs:
    return kubernetes.core.v1.PodSpecArgs(
        priority_class_name=priority_class,
        # Its card is wanted at once, and it has nothing to end.
        termination_grace_period_seconds=0,
        automount_service_account_token=False,
        node_selector={POOL_LABEL: args.node_pool_id},
        tolerations=[
            kubernetes.core.v1.TolerationArgs(
                key=one["key"], operator=one["operator"], value=one.get("value"), effect=one["effect"]
            )
            for one in args.tolerations
        ],
        security_context=kubernetes.core.v1.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=65535,
            seccomp_profile=kubernetes.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            kubernetes.core.v1.ContainerArgs(
                name="pause",
                image=args.image,
                resources=kubernetes.core.v1.ResourceRequirementsArgs(
                    # Almost nothing but the card, so that it comes wherever one is free.
                    limits={"cpu": "10m", "memory": "16Mi", **args.gpu_limits}
                ),
                security_context=kubernetes.core.v1.SecurityContextArgs(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=kubernetes.core.v1.CapabilitiesArgs(drop=["ALL"]),
                ),
            )
        ],
    )
