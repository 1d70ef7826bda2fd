"""Warm GPUs: low-priority placeholder pods that real replicas preempt."""

from __future__ import annotations

from collections.abc import Mapping
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
from components.gpu_node_pool import PoolSpec

_LABEL = "ackgpu/warm-capacity"


@dataclass(frozen=True, kw_only=True)
class WarmCapacityArgs:
    """The number of cards to keep warm, and their pool."""

    pool: PoolSpec
    # id of the pool, from its output
    node_pool_id: pulumi.Input[str]
    region: str
    # number of placeholder pods, each with a card
    gpus: int

    def __post_init__(self) -> None:
        """Refuse a pool with cards that a placeholder cannot fill.

        Raises:
            ValueError: the pool has such cards; the checks of the settings refuse it earlier.
        """
        if self.gpu_limits is None:
            raise ValueError(f"a placeholder pod cannot request a whole card of pool {self.pool.pool_name}")

    @property
    def gpu_limits(self) -> Mapping[str, str] | None:
        """GPU resources of each pod: a whole card."""
        return placeholder_limits(self.pool.card_mode, self.pool.instance_types)


class WarmCapacity(pulumi.ComponentResource):
    """PriorityClass and Deployment of the placeholders. Requires a Kubernetes provider."""

    deployment: kubernetes.apps.v1.Deployment

    def __init__(self, name: str, args: WarmCapacityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:WarmCapacity", name, None, opts)
        capacity_name = placeholders_name(args.pool.pool_name)
        priority = kubernetes.scheduling.v1.PriorityClass(
            f"{name}-priority",
            metadata={"name": capacity_name},
            value=PRIORITY,
            # A placeholder never evicts another pod.
            preemption_policy="Never",
            description="Placeholders that keep GPUs warm: any other pod preempts them.",
            # Kubernetes does not change the value of a PriorityClass.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        labels = {_LABEL: capacity_name}
        self.deployment = kubernetes.apps.v1.Deployment(
            f"{name}-placeholders",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=capacity_name,
                namespace=PLACEHOLDERS_NAMESPACE,
                labels=labels,
                # Placeholders stay pending while real replicas have every GPU of the pool.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=kubernetes.apps.v1.DeploymentSpecArgs(
                replicas=args.gpus,
                selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels=labels),
                # A rolling update would run old and new placeholders side by side and add nodes.
                strategy=kubernetes.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                template=kubernetes.core.v1.PodTemplateSpecArgs(
                    metadata=kubernetes.meta.v1.ObjectMetaArgs(labels=labels),
                    spec=_placeholder(args, priority.metadata.name),
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"deployment": self.deployment.metadata.name})


def _placeholder(args: WarmCapacityArgs, priority_class: pulumi.Input[str]) -> kubernetes.core.v1.PodSpecArgs:
    return kubernetes.core.v1.PodSpecArgs(
        priority_class_name=priority_class,
        # A real replica needs the card at once, and a placeholder has no work to finish.
        termination_grace_period_seconds=0,
        automount_service_account_token=False,
        node_selector={POOL_LABEL: args.node_pool_id},
        tolerations=[
            kubernetes.core.v1.TolerationArgs(
                key=toleration["key"],
                operator=toleration["operator"],
                value=toleration.get("value"),
                effect=toleration["effect"],
            )
            for toleration in tolerations(args.pool.taints)
        ],
        security_context=kubernetes.core.v1.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=65535,
            seccomp_profile=kubernetes.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            kubernetes.core.v1.ContainerArgs(
                name="pause",
                image=pause_image(args.region),
                resources=kubernetes.core.v1.ResourceRequirementsArgs(
                    # Requests little besides the card, so that the pod fits wherever a card is free.
                    limits={"cpu": "10m", "memory": "16Mi", **(args.gpu_limits or {})}
                ),
                security_context=kubernetes.core.v1.SecurityContextArgs(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=kubernetes.core.v1.CapabilitiesArgs(drop=["ALL"]),
                ),
            )
        ],
    )
