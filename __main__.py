"""GPU autoscaling on ACK as one stack: read the settings, build the components in order, export the outputs."""

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.outputs import check_commands, metric_resources
from autoscaling.settings.model import duration_seconds
from autoscaling.versions import CUSTOM_METRICS_PATH
from components.cluster import AckCluster, AckClusterArgs
from components.gpu_autoscaler import GpuAutoscaler, GpuAutoscalerArgs
from components.gpu_node_pool import GpuNodePool, GpuNodePoolArgs
from components.inference_service import InferenceService, InferenceServiceArgs
from components.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
from components.pipeline_proof import prove_pipeline
from components.preflight import no_other_owners
from components.prometheus import ArmsPrometheus, ArmsPrometheusArgs
from components.stack_config import stack_settings

settings = stack_settings()

account = alicloud.Provider("alicloud", region=settings.region)
cloud = pulumi.ResourceOptions(providers=[account])

api = settings.cluster.autoscaling_api
cluster_args = AckClusterArgs(
    cluster_id=settings.cluster.id,
    region=settings.region,
    autoscaling_api=api,
    preflight=no_other_owners(settings.services),
)
cluster = AckCluster("cluster", cluster_args, cloud)

nodes_args = GpuNodePoolArgs.of(settings.gpu_node_pool, cluster.cluster_id, own_vswitches=cluster.vswitch_ids)
nodes = GpuNodePool("gpu", nodes_args, cloud)

prometheus_args = ArmsPrometheusArgs(cluster_id=cluster.cluster_id, managed_by=settings.prometheus.managed_by)
prometheus = ArmsPrometheus("prometheus", prometheus_args, cloud)

adapter_args = MetricsAdapterArgs(
    chart=settings.metrics_adapter.chart,
    prometheus_url=prometheus.http_api_url,
    prometheus_authorization=settings.prometheus.auth.authorization,
    rules=settings.adapter_rules,
    relist_interval=settings.metrics_adapter.relist_interval,
)
adapter = MetricsAdapter("adapter", adapter_args, pulumi.ResourceOptions(providers=[cluster.provider]))

described = []
for service in settings.services:
    on_gpus = pulumi.ResourceOptions(providers=[cluster.provider], depends_on=[nodes.node_pool])
    inference = InferenceService(service.resource_name, InferenceServiceArgs.of(service), on_gpus)
    scaler = GpuAutoscaler(
        service.resource_name,
        GpuAutoscalerArgs.of(service, inference.deployment.metadata.name, api),
        pulumi.ResourceOptions(
            providers=[cluster.provider],
            depends_on=[adapter.release, inference.service],
        ),
    )
    described.append(inference.describe(service, hpa=scaler.autoscaler.metadata.name))

services = pulumi.Output.all(*described)
resources = metric_resources(settings.rule_set, settings.metrics_adapter.extra_rules)
outputs = {
    "clusterId": cluster.cluster_id,
    "customMetricsPath": CUSTOM_METRICS_PATH,
    "metrics": sorted({name.partition("/")[2] for name in resources}),
    "metricResources": resources,
    "services": services,
    "checks": services.apply(check_commands),
}
for name, value in outputs.items():
    pulumi.export(name, value)
prove_pipeline(outputs, cluster.kubeconfig, wait_seconds=duration_seconds(settings.wait_for_metrics))
