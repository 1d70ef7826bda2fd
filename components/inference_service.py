"""An inference service on GPUs, reachable through a load balancer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core import v1

from autoscaling.ack.load_balancer import ADDRESS_TYPE

_PATIENCE_SECONDS = 30 * 60
"""Starting a GPU node, pulling the image and loading the model take minutes each."""

_SHUTDOWN_SECONDS = 30
"""From SIGTERM to SIGKILL; Kubernetes' default."""

_STARTUP_PERIOD_SECONDS = 5

_DROPPED_CAPABILITIES = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_CHROOT"]
"""Capabilities that containerd grants to root and no server needs. Images that start as root, listen on port 80 and
switch to a user need the rest (CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, NET_BIND_SERVICE, SETGID, SETUID)."""


@dataclass(frozen=True, kw_only=True)
class InferenceServiceArgs:
    """An inference service."""

    # name of the Deployment, and value of the pods' label `app`
    service_name: str
    # name of the Kubernetes Service
    kubernetes_service: str
    namespace: str
    container_name: str
    image: str
    container_port: int
    # port of the load balancer
    port: int
    # GPU resources of each pod, such as {"nvidia.com/gpu": "1"}
    gpu_limits: Mapping[str, str]
    # resource requests of each pod, such as {"cpu": "1", "memory": "2Gi"}
    requests: Mapping[str, str] = field(default_factory=dict)
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    # Secrets of the namespace; their keys become environment variables
    env_from: Sequence[str] = ()
    tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()
    # a change replaces the load balancer and its address
    load_balancer: Literal["internet", "intranet"] = "internet"
    # path that responds to GET with 200 when a pod can serve; None: probes only connect to the port
    health_path: str | None = None
    # how long a pod usually takes to become Ready
    startup_seconds: int = 0
    # how long a pod keeps serving after Kubernetes asks it to stop
    drain_seconds: int = 0
    run_as_non_root: bool = False
    # Deployment and Service existed before the stack: they stay when the stack is destroyed, `up` takes over their
    # fields, and the pods get no default probes, security context or token setting, which would restart them
    adopted: bool = False
    # Deployment and Service stay when the stack is destroyed
    retain_on_delete: bool = False

    @property
    def patience_seconds(self) -> int:
        """Time until a pod that is not Ready counts as failed."""
        return max(_PATIENCE_SECONDS, 2 * self.startup_seconds)


class InferenceService(pulumi.ComponentResource):
    """Deployment, PodDisruptionBudget and LoadBalancer Service.

    Requires a Kubernetes provider and GPU nodes in the cluster.
    """

    deployment: kubernetes.apps.v1.Deployment
    disruption_budget: kubernetes.policy.v1.PodDisruptionBudget
    service: v1.Service
    address: pulumi.Output[str]
    """`host`, or `host:port` if the port is not 80."""

    def __init__(self, name: str, args: InferenceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:InferenceService", name, None, opts)
        labels = {"app": args.service_name}
        metadata = {"namespace": args.namespace, "labels": labels}
        # Lets the provider take over fields that kubectl or a console has set; otherwise they conflict.
        takeover = {"pulumi.com/patchForce": "true"} if args.adopted else {}
        patience = f"{args.patience_seconds // 60}m"
        common = pulumi.ResourceOptions(
            parent=self,
            retain_on_delete=args.adopted or args.retain_on_delete,
            custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        )
        self.deployment = kubernetes.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={"name": args.service_name, **metadata, **_annotations(takeover)},
            spec=_deployment_spec(args),
            # The HPA owns the replica count.
            opts=pulumi.ResourceOptions.merge(common, pulumi.ResourceOptions(ignore_changes=["spec.replicas"])),
        )
        self.disruption_budget = kubernetes.policy.v1.PodDisruptionBudget(
            f"{name}-disruption-budget",
            metadata={"name": args.service_name, **metadata},
            # `minAvailable` would block the eviction of a service's only replica.
            spec=kubernetes.policy.v1.PodDisruptionBudgetSpecArgs(max_unavailable=1, selector=_selector(args)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        intranet = {ADDRESS_TYPE: "intranet"} if args.load_balancer == "intranet" else {}
        self.service = v1.Service(
            f"{name}-service",
            metadata={"name": args.kubernetes_service, **metadata, **_annotations(intranet | takeover)},
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
                    # The provider waits for the Deployment's pods.
                    depends_on=[self.deployment],
                    # The address type of a load balancer is fixed. `replace_on_changes` on the annotation is wrong:
                    # an adopted Service may already have the annotation.
                    replacement_trigger=args.load_balancer,
                    delete_before_replace=True,
                ),
            ),
        )
        self.address = self.service.status.apply(lambda status: _address(status, args))
        self.register_outputs({"address": self.address})


def _annotations(annotations: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"annotations": annotations} if annotations else {}


def _selector(args: InferenceServiceArgs) -> kubernetes.meta.v1.LabelSelectorArgs:
    return kubernetes.meta.v1.LabelSelectorArgs(match_labels={"app": args.service_name})


def _deployment_spec(args: InferenceServiceArgs) -> kubernetes.apps.v1.DeploymentSpecArgs:
    return kubernetes.apps.v1.DeploymentSpecArgs(
        selector=_selector(args),
        # A new pod cannot start before an old one releases its GPU.
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
        # The SDK accepts a map with the same keys for a TolerationArgs; its types do not say so.
        tolerations=cast(Any, args.tolerations or None),
        termination_grace_period_seconds=args.drain_seconds + _SHUTDOWN_SECONDS,
        # A model server does not use the API server.
        automount_service_account_token=None if args.adopted else False,
        security_context=_pod_security(args),
    )


def _pod_security(args: InferenceServiceArgs) -> v1.PodSecurityContextArgs | None:
    if args.adopted and not args.run_as_non_root:
        return None
    return v1.PodSecurityContextArgs(
        run_as_non_root=args.run_as_non_root or None,
        seccomp_profile=None if args.adopted else v1.SeccompProfileArgs(type="RuntimeDefault"),
    )


def _container(args: InferenceServiceArgs) -> v1.ContainerArgs:
    return v1.ContainerArgs(
        name=args.container_name,
        image=args.image,
        args=list(args.args) or None,
        env=[v1.EnvVarArgs(name=name, value=value) for name, value in args.env.items()] or None,
        env_from=[v1.EnvFromSourceArgs(secret_ref=v1.SecretEnvSourceArgs(name=name)) for name in args.env_from] or None,
        ports=[v1.ContainerPortArgs(container_port=args.container_port)],
        # Only limits for GPUs: the API server copies them to requests, which must be equal.
        resources=v1.ResourceRequirementsArgs(limits=dict(args.gpu_limits), requests=dict(args.requests) or None),
        startup_probe=_probe(
            args, period=_STARTUP_PERIOD_SECONDS, failures=args.patience_seconds // _STARTUP_PERIOD_SECONDS
        ),
        readiness_probe=_probe(args, period=5, failures=3),
        # No liveness probe on the port: a hanging server accepts connections, and a busy server may not.
        liveness_probe=_probe(args, period=10, failures=6) if args.health_path else None,
        lifecycle=_lifecycle(args),
        security_context=_container_security(args),
    )


def _probe(args: InferenceServiceArgs, *, period: int, failures: int) -> v1.ProbeArgs | None:
    """Probe every `period` seconds; fail after `failures` failures in a row."""
    path, port = args.health_path, args.container_port
    if args.adopted and not path:
        return None
    return v1.ProbeArgs(
        http_get=v1.HTTPGetActionArgs(path=path, port=port) if path else None,
        tcp_socket=None if path else v1.TCPSocketActionArgs(port=port),
        period_seconds=period,
        timeout_seconds=5,
        failure_threshold=failures,
    )


def _lifecycle(args: InferenceServiceArgs) -> v1.LifecycleArgs | None:
    """Wait between a pod's removal from the load balancer and its SIGTERM.

    The kubelet's own `sleep` action needs Kubernetes 1.30 (KEP-3960); older API servers refuse it. In an image without
    the command `sleep`, the pod stops at once, and the kubelet reports FailedPreStopHook.
    """
    if not args.drain_seconds:
        return None
    command = ["sleep", str(args.drain_seconds)]
    return v1.LifecycleArgs(pre_stop=v1.LifecycleHandlerArgs(exec_=v1.ExecActionArgs(command=command)))


def _container_security(args: InferenceServiceArgs) -> v1.SecurityContextArgs | None:
    if args.adopted:
        return None
    return v1.SecurityContextArgs(
        allow_privilege_escalation=False, capabilities=v1.CapabilitiesArgs(drop=_DROPPED_CAPABILITIES)
    )


def _address(status: v1.outputs.ServiceStatus | None, args: InferenceServiceArgs) -> str:
    ingress = (status and status.load_balancer and status.load_balancer.ingress) or []
    host = next((entry.ip or entry.hostname for entry in ingress), None)
    if not host:
        raise pulumi.RunError(
            f"Service {args.namespace}/{args.kubernetes_service} has no load balancer address: `kubectl describe "
            f"service {args.kubernetes_service} -n {args.namespace}` shows why."
        )
    return str(host) if args.port == 80 else f"{host}:{args.port}"
