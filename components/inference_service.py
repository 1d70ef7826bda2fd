"""An inference service on GPUs, reachable through a load balancer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core import v1

from autoscaling.ack.card_modes import pod_limits
from autoscaling.ack.load_balancer import ADDRESS_TYPE
from autoscaling.settings.field_types import duration_seconds
from autoscaling.settings.services import SERVICE_SUFFIX, Service
from components.takeover import takeover_annotations

_PATIENCE_SECONDS = 30 * 60
"""A GPU node takes minutes to come, a model image minutes to be pulled, and a model minutes to be loaded."""

_SHUTDOWN_SECONDS = 30
"""From SIGTERM to SIGKILL, Kubernetes' own default."""

_STARTUP_PERIOD_SECONDS = 5

_NEEDED_BY_NO_SERVER = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_CHROOT"]
"""Of the capabilities that containerd gives to root. What is left (CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL,
NET_BIND_SERVICE, SETGID, SETUID) is what images use that begin as root, listen on 80, and change to a user."""


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
    # what the scheduler counts of each pod, such as {"cpu": "1", "memory": "2Gi"}
    requests: Mapping[str, str] = field(default_factory=dict)
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    # Secrets of the namespace, whose keys become environment variables
    env_from: Sequence[str] = ()
    tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()
    # a change makes another load balancer, with another address
    load_balancer: Literal["internet", "intranet"] = "internet"
    # answers GET with 200 when a pod can serve; without it the pod's port is only connected to
    health_path: str | None = None
    # how long a pod usually takes to become Ready
    startup_seconds: int = 0
    # how long a pod still serves after it was asked to end
    drain_seconds: int = 0
    run_as_non_root: bool = False
    # probes of the port, a security context, and no token for the API server: not where that would restart the pods of
    # an adopted Deployment
    hardened: bool = True
    # Deployment and Service stay when the stack is destroyed
    retain_on_delete: bool = False

    @classmethod
    def of(cls, service: Service, tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()) -> InferenceServiceArgs:
        """The args of a service of the settings.

        Args:
            service: from the settings.
            tolerations: of the taints of its nodes.
        """
        return cls(
            service_name=service.object_name,
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
            requests=service.requests,
            args=service.args,
            env=service.env,
            env_from=service.env_from,
            tolerations=tolerations,
            load_balancer=service.load_balancer,
            health_path=service.health_path,
            startup_seconds=duration_seconds(service.startup_time) if service.startup_time else 0,
            drain_seconds=service.drain_seconds,
            run_as_non_root=service.run_as_non_root,
            hardened=not service.adopted,
            retain_on_delete=service.adopted or service.retain_on_delete,
        )

    @property
    def patience_seconds(self) -> int:
        """How long a pod may take to become Ready before that is a failure."""
        return max(_PATIENCE_SECONDS, 2 * self.startup_seconds)


class InferenceService(pulumi.ComponentResource):
    """Deployment, PodDisruptionBudget and LoadBalancer Service.

    Needs a Kubernetes provider, and GPU nodes in its cluster.
    """

    deployment: kubernetes.apps.v1.Deployment
    disruption_budget: kubernetes.policy.v1.PodDisruptionBudget
    service: v1.Service
    address: pulumi.Output[str]
    """`host` or, where the port is not 80, `host:port`."""

    def __init__(self, name: str, args: InferenceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:InferenceService", name, None, opts)
        labels = {"app": args.service_name}
        metadata = {"namespace": args.namespace, "labels": labels}
        takeover = takeover_annotations(args.retain_on_delete)
        patience = f"{args.patience_seconds // 60}m"
        common = pulumi.ResourceOptions(
            parent=self,
            retain_on_delete=args.retain_on_delete,
            custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        )
        self.deployment = kubernetes.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={"name": args.service_name, **metadata, **_annotations(takeover)},
            spec=_deployment_spec(args),
            # The HPA owns the number.
            opts=pulumi.ResourceOptions.merge(common, pulumi.ResourceOptions(ignore_changes=["spec.replicas"])),
        )
        self.disruption_budget = kubernetes.policy.v1.PodDisruptionBudget(
            f"{name}-disruption-budget",
            metadata={"name": args.service_name, **metadata},
            # `minAvailable` would keep the only replica of a service from ever leaving its node.
            spec=kubernetes.policy.v1.PodDisruptionBudgetSpecArgs(max_unavailable=1, selector=_selector(args)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        intranet = {ADDRESS_TYPE: "intranet"} if args.load_balancer == "intranet" else {}
        self.service = v1.Service(
            f"{name}-service",
            metadata={"name": f"{args.service_name}{SERVICE_SUFFIX}", **metadata, **_annotations(intranet | takeover)},
            spec=v1.ServiceSpecArgs(
                type="LoadBalancer",
                selector=labels,
                ports=[
                    v1.ServicePortArgs(name="http", protocol="TCP", port=args.port, target_port=args.container_port)
                ],
            ),
            opts=pulumi.ResourceOptions.merge(
                common,
                pulumi.ResourceOptions(
                    # Its readiness is that of the Deployment's pods.
                    depends_on=[self.deployment],
                    # A Service's load balancer can't change its kind of address. Not `replace_on_changes` of the
                    # annotation: one that an adopted Service has would do.
                    replacement_trigger=args.load_balancer,
                    delete_before_replace=True,
                ),
            ),
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
                "deployment": service.object_name,
                "service": f"{service.object_name}{SERVICE_SUFFIX}",
                "address": made[0],
                "predictUrl": f"http://{made[0]}{service.probe.path}",
                "answer": service.probe.answer,
                "hpa": made[1],
                "metrics": [{"name": one.exposed_name, "target": f"{one.target:f}"} for one in autoscaler.metrics],
                "minReplicas": autoscaler.min_replicas,
                "maxReplicas": autoscaler.max_replicas,
            }
        )


def _annotations(some: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"annotations": some} if some else {}


def _selector(args: InferenceServiceArgs) -> kubernetes.meta.v1.LabelSelectorArgs:
    return kubernetes.meta.v1.LabelSelectorArgs(match_labels={"app": args.service_name})


def _deployment_spec(args: InferenceServiceArgs) -> kubernetes.apps.v1.DeploymentSpecArgs:
    return kubernetes.apps.v1.DeploymentSpecArgs(
        selector=_selector(args),
        # A new pod can't start before an old one gives its GPU back.
        strategy=kubernetes.apps.v1.DeploymentStrategyArgs(
            type="RollingUpdate",
            rolling_update=kubernetes.apps.v1.RollingUpdateDeploymentArgs(max_surge=0, max_unavailable=1),
        ),
        progress_deadline_seconds=args.patience_seconds,
        template=v1.PodTemplateSpecArgs(
            metadata=kubernetes.meta.v1.ObjectMetaArgs(labels={"app": args.service_name}), spec=_pod_spec(args)
        ),
    )


def _pod_spec(args: InferenceServiceArgs) -> v1.PodSpecArgs:
    return v1.PodSpecArgs(
        containers=[_container(args)],
        # The SDK takes a map of the same keys for a TolerationArgs; its types do not say so.
        tolerations=cast(Any, args.tolerations or None),
        termination_grace_period_seconds=args.drain_seconds + _SHUTDOWN_SECONDS,
        # No server here talks to the API server.
        automount_service_account_token=False if args.hardened else None,
        security_context=_pod_security(args),
    )


def _pod_security(args: InferenceServiceArgs) -> v1.PodSecurityContextArgs | None:
    if not args.hardened and not args.run_as_non_root:
        return None
    return v1.PodSecurityContextArgs(
        run_as_non_root=args.run_as_non_root or None,
        seccomp_profile=v1.SeccompProfileArgs(type="RuntimeDefault") if args.hardened else None,
    )


def _container(args: InferenceServiceArgs) -> v1.ContainerArgs:
    return v1.ContainerArgs(
        name=args.container_name,
        image=args.image,
        args=list(args.args) or None,
        env=[v1.EnvVarArgs(name=name, value=value) for name, value in args.env.items()] or None,
        env_from=[v1.EnvFromSourceArgs(secret_ref=v1.SecretEnvSourceArgs(name=name)) for name in args.env_from] or None,
        ports=[v1.ContainerPortArgs(container_port=args.container_port)],
        # Of GPUs only limits: the API server copies them to requests, which must be equal.
        resources=v1.ResourceRequirementsArgs(limits=dict(args.gpu_limits), requests=dict(args.requests) or None),
        startup_probe=_probe(
            args, period=_STARTUP_PERIOD_SECONDS, failures=args.patience_seconds // _STARTUP_PERIOD_SECONDS
        ),
        readiness_probe=_probe(args, period=5, failures=3),
        # A server that hangs still takes connections, and one with a long queue may not: a port can't tell.
        liveness_probe=_probe(args, period=10, failures=6) if args.health_path else None,
        lifecycle=_lifecycle(args),
        security_context=_container_security(args),
    )


def _probe(args: InferenceServiceArgs, *, period: int, failures: int) -> v1.ProbeArgs | None:
    """A failure is `failures` refusals, one each `period` seconds."""
    path, port = args.health_path, args.container_port
    if not args.hardened and not path:
        return None
    return v1.ProbeArgs(
        http_get=v1.HTTPGetActionArgs(path=path, port=port) if path else None,
        tcp_socket=None if path else v1.TCPSocketActionArgs(port=port),
        period_seconds=period,
        timeout_seconds=5,
        failure_threshold=failures,
    )


def _lifecycle(args: InferenceServiceArgs) -> v1.LifecycleArgs | None:
    """A pause between a pod's taking out of the load balancer and its SIGTERM.

    The kubelet's own `sleep` is there from Kubernetes 1.30 only (KEP-3960), and the API server of an older cluster
    refuses it. In an image without the command a pod ends at once: the kubelet notes FailedPreStopHook and goes on.
    """
    if not args.drain_seconds:
        return None
    command = ["sleep", str(args.drain_seconds)]
    return v1.LifecycleArgs(pre_stop=v1.LifecycleHandlerArgs(exec_=v1.ExecActionArgs(command=command)))


def _container_security(args: InferenceServiceArgs) -> v1.SecurityContextArgs | None:
    if not args.hardened:
        return None
    return v1.SecurityContextArgs(
        allow_privilege_escalation=False, capabilities=v1.CapabilitiesArgs(drop=_NEEDED_BY_NO_SERVER)
    )


def _address(status: v1.outputs.ServiceStatus | None, port: int) -> str:
    ingress = (status and status.load_balancer and status.load_balancer.ingress) or []
    host = next((one.ip or one.hostname for one in ingress), None)
    if not host:
        raise pulumi.RunError("the Service has no load balancer address: see its events with kubectl describe service.")
    return str(host) if port == 80 else f"{host}:{port}"
