"""GPU autoscaling on ACK as one stack: read the settings, build the components in order, export the outputs."""

import pulumi

from autoscaling.ack.versions import CUSTOM_METRICS_PATH
from autoscaling.settings.field_types import duration_seconds
from components.gpu_autoscaler import GpuAutoscaler
from components.inference_service import InferenceService
from program.args import autoscaler_args, service_args
from program.outputs import check_commands, service_output
from program.platform import own_platform, platform_of_another_stack
from program.stack_config import stack_name, stack_settings
from program.wait_for_metrics import prove_pipeline

# 3.244.0 is the first engine that calls error hooks after any error of a provider, as the adapter's hook needs.
# Resource hooks, also on dry run (3.182.0), and replacement triggers that ignore dependencies (3.226.0) are older.
# https://github.com/pulumi/pulumi/blob/master/CHANGELOG.md
pulumi.require_pulumi_version(">=3.244.0")
settings, stack = stack_settings(), stack_name()
platform = (platform_of_another_stack if settings.platform else own_platform)(settings, stack)

described = []
for service in settings.services:
    inference = InferenceService(
        service.resource_name,
        service_args(service, platform.tolerations),
        pulumi.ResourceOptions(providers=[platform.provider], depends_on=platform.nodes),
    )
    autoscaler = GpuAutoscaler(
        service.resource_name,
        autoscaler_args(
            service,
            deployment=inference.deployment.metadata.name,
            api=settings.cluster.autoscaling_api,
            stack=stack,
        ),
        pulumi.ResourceOptions(providers=[platform.provider], depends_on=[*platform.adapter, inference.service]),
    )
    described.append(service_output(service, address=inference.address, hpa=autoscaler.autoscaler_name))

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
    **platform.exported,
}
for name, value in outputs.items():
    pulumi.export(name, value)
prove_pipeline(outputs, platform.kubeconfig, wait_seconds=duration_seconds(settings.wait_for_metrics))
