"""What the services of a stack stand on: the stack's own platform, or that of another stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from autoscaling.ack.taints import tolerations
from autoscaling.metrics.rule_drift import fingerprints
from autoscaling.settings import Settings, SettingsError, parse
from autoscaling.settings.platform_stack import exported_settings, joined, unexposed_metrics, used_metrics
from components.cluster import AckCluster, AckClusterArgs, credential_minutes
from components.gpu_node_pool import GpuNodePool, GpuNodePoolArgs
from components.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
from components.prometheus import ArmsPrometheus, ArmsPrometheusArgs
from components.warm_capacity import WarmCapacity, WarmCapacityArgs
from live.adapter_changes import clear_leftover, rules_for_this_run
from live.preflight import Preflight, no_other_owners
from live.snapshot import ClusterLook
from program.chart import chart_version
from program.outputs import metric_resources
from program.stack_config import stack_name


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A cluster with GPU nodes, and with an adapter that serves their metrics."""

    cluster_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    """A secret."""
    api_server: pulumi.Output[str]
    """Where it leads to."""
    provider: kubernetes.Provider
    nodes: Sequence[pulumi.Resource] = ()
    """What this stack makes of it before pods can run on GPUs."""
    adapter: Sequence[pulumi.Resource] = ()
    """What this stack makes of it before an HPA can read a metric."""
    tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()
    """Of the taints of its GPU nodes."""
    metric_resources: pulumi.Input[Sequence[str]]
    """`<resource>/<metric>` that this stack exposes or uses, as the custom metrics API lists them."""
    monitored_node_pool_id: pulumi.Input[str] | None = None
    """The pool whose GPU nodes need ACK's exporter."""
    exported: Mapping[str, Any]
    """What stacks that use it need to know, as stack outputs."""


def access(settings: Settings) -> None:
    """Register what leads into the cluster, and nothing that is in it."""
    if settings.platform:
        stack = _platform_stack(settings)
        _cluster_of_another_stack(_outputs_of(stack, settings, "clusterId", "platform"), preflight=None)
    else:
        _own_cluster(settings, _account(settings.region), preflight=None)


def own_platform(settings: Settings) -> Platform:
    """Register the components of the platform, in their order."""
    cloud = _account(settings.region)
    stack, adapter_settings = stack_name(), settings.metrics_adapter
    look = ClusterLook((service.namespace for service in settings.services), adapter=True)
    preflight = no_other_owners(look, settings.services, stack=stack, installs_adapter=not adapter_settings.adopted)
    cluster = _own_cluster(settings, cloud, preflight)

    nodes_args = GpuNodePoolArgs.of(settings.gpu_node_pool, cluster.cluster_id, own_vswitches=cluster.vswitch_ids)
    nodes = GpuNodePool("gpu", nodes_args, cloud)

    prometheus_args = ArmsPrometheusArgs(cluster_id=cluster.cluster_id, managed_by=settings.prometheus.managed_by)
    prometheus = ArmsPrometheus("prometheus", prometheus_args, cloud)

    chart = settings.metrics_adapter.chart
    version = chart_version(chart)
    rules = rules_for_this_run(look, cluster.kubeconfig, settings.adapter_rules, version, stack=stack)
    adapter_args = MetricsAdapterArgs(
        chart=chart,
        chart_version=version,
        stack=stack,
        prometheus_url=prometheus.http_api_url,
        prometheus_authorization=settings.prometheus.auth.authorization,
        rules=rules,
        relist_interval=settings.metrics_adapter.relist_interval,
        values=settings.metrics_adapter.values,
        before_change=clear_leftover(cluster.kubeconfig, stack=stack),
        retain_on_delete=adapter_settings.adopted or adapter_settings.retain_on_delete,
    )
    adapter = MetricsAdapter("adapter", adapter_args, pulumi.ResourceOptions(providers=[cluster.provider]))

    if settings.gpu_node_pool.warm_gpus:
        warm_args = WarmCapacityArgs.of(settings.gpu_node_pool, nodes.node_pool.node_pool_id, settings.region)
        WarmCapacity("gpu", warm_args, pulumi.ResourceOptions(providers=[cluster.provider]))
    return Platform(
        cluster_id=cluster.cluster_id,
        kubeconfig=cluster.kubeconfig,
        api_server=cluster.api_server,
        provider=cluster.provider,
        nodes=[nodes.node_pool],
        adapter=[adapter.release],
        tolerations=tolerations(settings.gpu_node_pool.taints),
        metric_resources=metric_resources(settings.rule_set, settings.metrics_adapter.extra_rules),
        exported={"platform": exported_settings(settings), "adapterRules": rules.apply(fingerprints)},
        monitored_node_pool_id=nodes.node_pool.node_pool_id if settings.metrics_adapter.labels == "ack" else None,
    )


def platform_of_another_stack(settings: Settings) -> Platform:
    """Take the platform from the outputs of the stack that `platform` names; nothing of it is changed or deleted.

    Fails, at preview too, where that stack exports none, or where the services do not pass with the platform's
    settings the checks that a stack of both would have to pass.
    """
    stack = _platform_stack(settings)
    known = _outputs_of(stack, settings, "clusterId", "metricResources", "platform").apply(
        lambda outputs: _checked(settings, outputs)
    )
    look = ClusterLook((service.namespace for service in settings.services), adapter=False)
    preflight = no_other_owners(look, settings.services, stack=stack_name(), installs_adapter=False)
    cluster = _cluster_of_another_stack(known, preflight)
    return Platform(
        cluster_id=cluster.cluster_id,
        kubeconfig=cluster.kubeconfig,
        api_server=cluster.api_server,
        provider=cluster.provider,
        tolerations=known.apply(lambda outputs: outputs["tolerations"]),
        metric_resources=known.apply(lambda outputs: used_metrics(settings, outputs["metricResources"])),
        monitored_node_pool_id=stack.get_output("monitoredNodePoolId"),
        exported={},
    )


def _own_cluster(settings: Settings, cloud: pulumi.ResourceOptions, preflight: Preflight | None) -> AckCluster:
    return AckCluster("cluster", AckClusterArgs.of(settings.cluster, settings.region, preflight), cloud)


def _platform_stack(settings: Settings) -> pulumi.StackReference:
    return pulumi.StackReference("platform", stack_name=settings.platform)


def _outputs_of(stack: pulumi.StackReference, settings: Settings, *names: str) -> pulumi.Output[Mapping[str, Any]]:
    return pulumi.Output.all(**{name: stack.get_output(name) for name in names}).apply(
        lambda outputs: _present(settings, outputs)
    )


def _cluster_of_another_stack(known: pulumi.Output[Mapping[str, Any]], preflight: Preflight | None) -> AckCluster:
    region = known.apply(lambda outputs: outputs["platform"]["region"])
    way_in = known.apply(lambda outputs: outputs["platform"].get("cluster", {}))
    args = AckClusterArgs(
        cluster_id=known.apply(lambda outputs: outputs["clusterId"]),
        region=region,
        api_endpoint=way_in.apply(lambda one: one.get("apiEndpoint", "internet")),
        temporary_minutes=way_in.apply(lambda one: credential_minutes(one.get("temporaryCredential"))),
        preflight=preflight,
    )
    return AckCluster("cluster", args, _account(region))


def _account(region: pulumi.Input[str]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(providers=[alicloud.Provider("alicloud", region=region)])


def _present(settings: Settings, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    missing = [name for name, value in outputs.items() if value is None]
    if missing:
        raise pulumi.RunError(
            f"platform is {settings.platform!r}, and that stack has no output {', '.join(missing)}: name a stack of "
            "this program that has a platform of its own, and run pulumi up there first."
        )
    return outputs


def _checked(settings: Settings, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        whole = parse(joined(settings, outputs["platform"], outputs["clusterId"]))
    except SettingsError as error:
        faults = error.faults
    else:
        faults = list(unexposed_metrics(settings, outputs["metricResources"]))
        if whole.cluster.autoscaling_api != "v2":
            faults.append(
                f"the platform {settings.platform} has cluster.autoscalingApi v2beta1: give it services of its own."
            )
    if faults:
        raise pulumi.RunError("\n".join([f"the services do not fit the platform {settings.platform}:", *faults]))
    return {**outputs, "tolerations": tolerations(whole.gpu_node_pool.taints)}
