"""A program of another project: the adapter and an autoscaler for an existing Deployment."""

from decimal import Decimal

import pulumi
import pulumi_kubernetes as kubernetes

from autoscaling.metrics.adapter_rules import RuleSet
from components.gpu_autoscaler import GpuAutoscaler, GpuAutoscalerArgs
from components.metrics_adapter import MetricsAdapter, MetricsAdapterArgs, ReleaseSpec

config = pulumi.Config()
stack = f"{pulumi.get_project()}/{pulumi.get_stack()}"
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
adapter_args = MetricsAdapterArgs(
    release=ReleaseSpec(chart=config.require("chart"), stack=stack, rules=RuleSet().rules(), relist_interval="5s"),
    prometheus_url=config.require_secret("prometheusUrl"),
)
adapter = MetricsAdapter("adapter", adapter_args, pulumi.ResourceOptions(providers=[cluster]))
autoscaler_args = GpuAutoscalerArgs(
    autoscaler_name="own-hpa",
    stack=stack,
    namespace="default",
    deployment="own",
    metrics={"DCGM_CUSTOM_PROCESS_MEM_USED": Decimal(8000)},
    min_replicas=1,
    max_replicas=2,
)
after_adapter = pulumi.ResourceOptions(providers=[cluster], depends_on=[adapter])
GpuAutoscaler("own", autoscaler_args, after_adapter)
