"""The platform that services run on: the stack's own, or the platform of another stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from autoscaling.ack.taints import tolerations
from autoscaling.metrics.rule_drift import fingerprints
from autoscaling.settings import Settings, SettingsError, parse
from autoscaling.settings.platform_stack import exported_settings, joined, unexposed_metrics, used_metrics
from components.cluster import AckCluster, AckClusterArgs
from components.platform import Platform, cluster_of
from live.preflight import Preflight, SharedSnapshot, no_other_owners
from program.args import cluster_args, credential_minutes, platform_args
from program.outputs import metric_resources


@dataclass(frozen=True, kw_only=True)
class PlatformInUse:
    """A cluster with GPU nodes, and with an adapter that serves their metrics."""

    cluster_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    """A secret."""
    api_server: pulumi.Output[str]
    """The address in the kubeconfig."""
    provider: kubernetes.Provider
    nodes: Sequence[pulumi.Resource] = ()
    """Resources of this stack that pods need to run on GPUs."""
    adapter: Sequence[pulumi.Resource] = ()
    """Resources of this stack that HPAs need to read metrics."""
    tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()
    """Tolerations of pods for the taints of the GPU nodes."""
    metric_resources: pulumi.Input[Sequence[str]]
    """`<resource>/<metric>` that this stack exposes or uses, as the custom metrics API lists them."""
    monitored_node_pool_id: pulumi.Input[str] | None = None
    """The pool whose GPU nodes need ACK's exporter."""
    exported: Mapping[str, Any]
    """Stack outputs for the stacks that use this platform."""


def access(settings: Settings, urns: Collection[str]) -> None:
    """Register the providers and the cluster that they connect to, but none of the cluster's contents.

    Args:
        settings: the stack's settings.
        urns: URNs in the stack's state.
    """
    if settings.platform:
        outputs = _outputs_of(_platform_stack(settings), settings, "clusterId", "platform")
        _cluster_of_another_stack(outputs, preflight=None)
        return
    args, account = cluster_args(settings.cluster, settings.region), _account(settings.region)
    if any(urn.endswith("::ackgpu:index:AckCluster::cluster") for urn in urns):
        # A stack of an earlier version: no `up` has moved the cluster below the platform yet. An alias would make the
        # engine panic in a refresh.
        AckCluster("cluster", args, account)
    else:
        cluster_of(pulumi.ComponentResource("ackgpu:index:Platform", "platform", opts=account), args)


def own_platform(settings: Settings, stack: str) -> PlatformInUse:
    """Register the platform of this stack."""
    adapter = settings.metrics_adapter
    platform = Platform("platform", platform_args(settings, stack), _account(settings.region))
    return PlatformInUse(
        cluster_id=platform.cluster.cluster_id,
        kubeconfig=platform.cluster.kubeconfig,
        api_server=platform.cluster.api_server,
        provider=platform.cluster.provider,
        nodes=[platform.nodes.node_pool],
        adapter=[platform.adapter.release],
        tolerations=tolerations(settings.gpu_node_pool.taints),
        metric_resources=metric_resources(settings.rule_set, adapter.extra_rules),
        exported={
            "platform": exported_settings(settings),
            "adapterRules": platform.adapter.rules.apply(fingerprints),
        },
        monitored_node_pool_id=platform.nodes.node_pool_id if adapter.labels == "ack" else None,
    )


def platform_of_another_stack(settings: Settings, stack: str) -> PlatformInUse:
    """Use the platform of the stack that `platform` names: read only the outputs of that stack.

    Fail, also at preview, if that stack does not export a platform, or if the services and the platform together fail
    the checks.
    """
    reference = _platform_stack(settings)
    known = _outputs_of(reference, settings, "clusterId", "metricResources", "platform").apply(
        lambda outputs: _checked(settings, outputs)
    )
    snapshot = SharedSnapshot((service.namespace for service in settings.services), adapter=False)
    preflight = no_other_owners(snapshot, settings.services, stack=stack, installs_adapter=False)
    cluster = _cluster_of_another_stack(known, preflight)
    return PlatformInUse(
        cluster_id=cluster.cluster_id,
        kubeconfig=cluster.kubeconfig,
        api_server=cluster.api_server,
        provider=cluster.provider,
        tolerations=known.apply(lambda outputs: outputs["tolerations"]),
        metric_resources=known.apply(lambda outputs: used_metrics(settings, outputs["metricResources"])),
        monitored_node_pool_id=reference.get_output("monitoredNodePoolId"),
        exported={},
    )


def _platform_stack(settings: Settings) -> pulumi.StackReference:
    return pulumi.StackReference("platform", stack_name=settings.platform)


def _outputs_of(stack: pulumi.StackReference, settings: Settings, *names: str) -> pulumi.Output[Mapping[str, Any]]:
    return pulumi.Output.all(**{name: stack.get_output(name) for name in names}).apply(
        lambda outputs: _present(settings, outputs)
    )


def _cluster_of_another_stack(known: pulumi.Output[Mapping[str, Any]], preflight: Preflight | None) -> AckCluster:
    region = known.apply(lambda outputs: outputs["platform"]["region"])
    cluster = known.apply(lambda outputs: outputs["platform"].get("cluster", {}))
    args = AckClusterArgs(
        cluster_id=known.apply(lambda outputs: outputs["clusterId"]),
        region=region,
        api_endpoint=cluster.apply(lambda values: values.get("apiEndpoint", "internet")),
        temporary_minutes=cluster.apply(lambda values: credential_minutes(values.get("temporaryCredential"))),
        preflight=preflight,
    )
    return AckCluster("cluster", args, _account(region))


def _account(region: pulumi.Input[str]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(providers=[alicloud.Provider("alicloud", region=region)])


def _present(settings: Settings, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    missing = [name for name, value in outputs.items() if value is None]
    if missing:
        raise pulumi.RunError(
            f"`platform` is set to {settings.platform!r}, but that stack does not export {', '.join(missing)}: choose "
            "a stack of this program with its own platform, and run `pulumi up` there first."
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
                f"the platform stack {settings.platform} has cluster.autoscalingApi set to v2beta1, but services in a "
                f"separate stack need v2: define the services in stack {settings.platform}."
            )
    if faults:
        raise pulumi.RunError("\n".join([f"the services do not fit the platform {settings.platform}:", *faults]))
    return {**outputs, "tolerations": tolerations(whole.gpu_node_pool.taints)}
