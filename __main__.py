"""GPU autoscaling on ACK as one stack: read the settings, build the components in order, export the outputs."""

import pulumi

from autoscaling.ack.versions import CUSTOM_METRICS_PATH
from autoscaling.settings.field_types import duration_seconds
from components.gpu_autoscaler import GpuAutoscaler, GpuAutoscalerArgs
from components.inference_service import InferenceService, InferenceServiceArgs
from program.outputs import check_commands
from program.platform import own_platform, platform_of_another_stack
from program.proof import prove_pipeline
from program.stack_config import stack_name, stack_settings

settings, stack = stack_settings(), stack_name()
platform = platform_of_another_stack(settings) if settings.platform else own_platform(settings)

described = []
for service in settings.services:
    on_gpus = pulumi.ResourceOptions(providers=[platform.provider], depends_on=platform.nodes)
    inference = InferenceService(service.resource_name, InferenceServiceArgs.of(service, platform.tolerations), on_gpus)
    scaler = GpuAutoscaler(
        service.resource_name,
        GpuAutoscalerArgs.of(service, inference.deployment.metadata.name, settings.cluster.autoscaling_api, stack),
        pulumi.ResourceOptions(
            providers=[platform.provider],
            depends_on=[*platform.adapter, inference.service],
        ),
    )
    described.append(inference.describe(service, hpa=scaler.autoscaler.metadata.name))

services = pulumi.Output.all(*described)
resources = pulumi.Output.from_input(platform.metric_resources)
outputs = {
    "clusterId": platform.cluster_id,
    "apiServer": platform.api_server,
    "customMetricsPath": CUSTOM_METRICS_PATH,
    "metrics": resources.apply(lambda names: sorted({name.partition("/")[2] for name in names})),
    "metricResources": resources,
    "services": services,
    "checks": services.apply(check_commands),
    "monitoredNodePoolId": platform.monitored_node_pool_id,
}
for name, value in {**outputs, **platform.exported}.items():
    pulumi.export(name, value)
prove_pipeline(outputs, platform.kubeconfig, wait_seconds=duration_seconds(settings.wait_for_metrics))
