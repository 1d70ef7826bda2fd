"""An inference service on GPUs, reachable through a load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from autoscaling.card_modes import pod_limits
from autoscaling.settings.model import SERVICE_SUFFIX, Service

_TIMEOUTS = pulumi.CustomTimeouts(create="30m", update="30m")
"""A GPU node takes minutes to come, and a model image minutes to be pulled."""


@dataclass(frozen=True, kw_only=True)
class InferenceServiceArgs:
    """One service; its Kubernetes objects are `<service_name>` and `<service_name>-svc`."""

    service_name: str
    namespace: str
    container_name: str
    image: str
    container_port: int
    # port of the load balancer
    port: int
    # GPU resources of each pod, such as {"nvidia.com/gpu": "1"}
    gpu_limits: Mapping[str, str]

    @classmethod
    def of(cls, service: Service) -> InferenceServiceArgs:
        """The args of a service of the settings."""
        return cls(
            service_name=service.name,
            namespace=service.namespace,
            container_name=service.container_name,
            image=service.image,
            container_port=service.container_port,
            port=service.port,
            gpu_limits=pod_limits(
                gpus=service.gpus,
                memory_gib=service.gpu_memory_gib,
                core_percent=service.gpu_core_percent,
                mig_profile=service.mig_profile,
            ),
        )


class InferenceService(pulumi.ComponentResource):
    """Deployment and LoadBalancer Service. Needs a Kubernetes provider, and GPU nodes in its cluster."""

    deployment: kubernetes.apps.v1.Deployment
    service: kubernetes.core.v1.Service
    address: pulumi.Output[str]
    """`host` or, where the port is not 80, `host:port`."""

    def __init__(self, name: str, args: InferenceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:InferenceService", name, None, opts)
        labels = {"app": args.service_name}
        self.deployment = self._create_deployment(name, args, labels)
        self.service = kubernetes.core.v1.Service(
            f"{name}-service",
            metadata={"name": f"{args.service_name}{SERVICE_SUFFIX}", "namespace": args.namespace, "labels": labels},
            spec=kubernetes.core.v1.ServiceSpecArgs(
                type="LoadBalancer",
                selector=labels,
                ports=[
                    kubernetes.core.v1.ServicePortArgs(
                        name="http", protocol="TCP", port=args.port, target_port=args.container_port
                    )
                ],
            ),
            # Its readiness is that of the Deployment's pods.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.deployment], custom_timeouts=_TIMEOUTS),
        )
        self.address = self.service.status.apply(lambda status: _address(status, args.port))

    def describe(self, service: Service, hpa: pulumi.Input[str]) -> pulumi.Output[dict[str, Any]]:
        """What a check of this service needs to know, as a stack output; `hpa` is the name of its autoscaler."""
        autoscaler = service.autoscaler
        # Not a dictionary of outputs: the SDK would look at each of its tasks again whenever one is done.
        return pulumi.Output.all(self.address, hpa).apply(
            lambda made: {
                "name": service.name,
                "namespace": service.namespace,
                "deployment": service.name,
                "service": f"{service.name}{SERVICE_SUFFIX}",
                "address": made[0],
                "predictUrl": f"http://{made[0]}{service.probe.path}",
                "answer": service.probe.answer,
                "hpa": made[1],
                "metrics": [{"name": one.exposed_name, "target": f"{one.target:f}"} for one in autoscaler.metrics],
                "minReplicas": autoscaler.min_replicas,
                "maxReplicas": autoscaler.max_replicas,
            }
        )

    def _create_deployment(
        self, name: str, args: InferenceServiceArgs, labels: dict[str, str]
    ) -> kubernetes.apps.v1.Deployment:
        container = kubernetes.core.v1.ContainerArgs(
            name=args.container_name,
            image=args.image,
            ports=[kubernetes.core.v1.ContainerPortArgs(container_port=args.container_port)],
            # Only limits: the API server copies them to requests, which must be equal for GPUs.
            resources=kubernetes.core.v1.ResourceRequirementsArgs(limits=dict(args.gpu_limits)),
        )
        return kubernetes.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={"name": args.service_name, "namespace": args.namespace, "labels": labels},
            # No replicas: the HPA owns the number.
            spec=kubernetes.apps.v1.DeploymentSpecArgs(
                selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels=labels),
                # A new pod can't start before an old one gives its GPU back.
                strategy=kubernetes.apps.v1.DeploymentStrategyArgs(
                    type="RollingUpdate",
                    rolling_update=kubernetes.apps.v1.RollingUpdateDeploymentArgs(max_surge=0, max_unavailable=1),
                ),
                progress_deadline_seconds=1800,
                template=kubernetes.core.v1.PodTemplateSpecArgs(
                    metadata=kubernetes.meta.v1.ObjectMetaArgs(labels=labels),
                    spec=kubernetes.core.v1.PodSpecArgs(containers=[container]),
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["spec.replicas"], custom_timeouts=_TIMEOUTS),
        )


def _address(status: kubernetes.core.v1.outputs.ServiceStatus | None, port: int) -> str:
    ingress = (status and status.load_balancer and status.load_balancer.ingress) or []
    host = next((one.ip or one.hostname for one in ingress), None)
    if not host:
        raise pulumi.RunError("the Service has no load balancer address: see its events with kubectl describe service.")
    return str(host) if port == 80 else f"{host}:{port}"
