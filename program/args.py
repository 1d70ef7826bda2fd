"""Convert the settings of a stack into the args of its components."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import pulumi

from autoscaling.ack.card_modes import pod_limits
from autoscaling.settings import Settings
from autoscaling.settings.autoscaler import ScaleDown, ScaleUp
from autoscaling.settings.cluster import Cluster, ClusterCreation
from autoscaling.settings.field_types import duration_seconds
from autoscaling.settings.gpu_node_pool import GpuNodePool
from autoscaling.settings.services import SERVICE_SUFFIX, Service
from components.cluster import AckClusterArgs
from components.gpu_autoscaler import GpuAutoscalerArgs, ScalingPolicy, ScalingRules
from components.gpu_node_pool import NodeLimits, NodeTaint, PoolSpec
from components.inference_service import InferenceServiceArgs
from components.managed_cluster import NewCluster
from components.metrics_adapter import ReleaseSpec
from components.platform import PlatformArgs
from live.preflight import Preflight, SharedSnapshot, no_other_owners
from program.chart import chart_version


def platform_args(settings: Settings, stack: str) -> PlatformArgs:
    """Return the args of the platform."""
    snapshot = SharedSnapshot((service.namespace for service in settings.services), adapter=True)
    installs_adapter = not settings.metrics_adapter.adopted
    preflight = no_other_owners(snapshot, settings.services, stack=stack, installs_adapter=installs_adapter)
    return PlatformArgs(
        region=settings.region,
        cluster=cluster_args(settings.cluster, settings.region, preflight),
        pool=pool_spec(settings.gpu_node_pool),
        warm_gpus=settings.gpu_node_pool.warm_gpus,
        prometheus=settings.prometheus.managed_by,
        release=_release_spec(settings, stack),
        snapshot=snapshot,
    )


def cluster_args(cluster: Cluster, region: str, preflight: Preflight | None = None) -> AckClusterArgs:
    """Return the args of the cluster."""
    return AckClusterArgs(
        region=region,
        cluster_id=cluster.id,
        create=_new_cluster(cluster.create) if cluster.create else None,
        api_endpoint=cluster.api_endpoint,
        temporary_minutes=credential_minutes(cluster.temporary_credential),
        autoscaling_api=cluster.autoscaling_api,
        preflight=preflight,
    )


def credential_minutes(duration: str | None) -> int | None:
    """Return `cluster.temporaryCredential` in minutes, rounded up: the provider accepts whole minutes only."""
    return math.ceil(duration_seconds(duration) / 60) if duration else None


def pool_spec(pool: GpuNodePool) -> PoolSpec:
    """Return the args of the node pool."""
    limits = pool.autoscaling
    return PoolSpec(
        pool_name=pool.name,
        instance_types=pool.instance_types,
        vswitch_ids=pool.vswitch_ids or (),
        size=pool.size,
        limits=NodeLimits(min=limits.min, max=limits.max) if limits else None,
        card_mode=pool.card_mode,
        system_disk_category=pool.system_disk.category,
        system_disk_gib=pool.system_disk.size_gib,
        taints=[NodeTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints],
        driver_version=pool.driver_version,
        key_name=pool.key_name,
        spot=pool.spot is not None,
        spot_price_limits=pool.spot.hourly_price_limits if pool.spot else {},
        adopted=pool.adopted,
        retain_on_delete=pool.retain_on_delete,
    )


def service_args(service: Service, tolerations: pulumi.Input[Sequence[Mapping[str, str]]] = ()) -> InferenceServiceArgs:
    """Return the args of a service; `tolerations` match the taints of its nodes."""
    return InferenceServiceArgs(
        service_name=service.object_name,
        kubernetes_service=f"{service.object_name}{SERVICE_SUFFIX}",
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
        adopted=service.adopted,
        retain_on_delete=service.retain_on_delete,
    )


def autoscaler_args(
    service: Service, *, deployment: pulumi.Input[str], api: Literal["v2", "v2beta1"], stack: str
) -> GpuAutoscalerArgs:
    """Return the args of a service's HPA."""
    autoscaler = service.autoscaler
    return GpuAutoscalerArgs(
        autoscaler_name=service.autoscaler_name,
        stack=stack,
        namespace=service.namespace,
        deployment=deployment,
        metrics={metric.exposed_name: metric.target for metric in autoscaler.metrics},
        min_replicas=autoscaler.min_replicas,
        max_replicas=autoscaler.max_replicas,
        api=api,
        scale_up=_scaling_rules(autoscaler.scale_up),
        scale_down=_scaling_rules(autoscaler.scale_down),
        adopted=service.adopted,
        retain_on_delete=service.retain_on_delete,
    )


def _new_cluster(creation: ClusterCreation) -> NewCluster:
    return NewCluster(
        name=creation.name,
        spec=creation.spec,
        version=creation.version,
        zones=creation.zones or (),
        vpc_cidr=creation.vpc_cidr,
        vswitch_ids=creation.vswitch_ids or (),
        pod_vswitch_ids=creation.pod_vswitch_ids or (),
        service_cidr=creation.service_cidr,
        system_instance_types=creation.system_pool.instance_types,
        system_size=creation.system_pool.size,
        deletion_protection=creation.deletion_protection,
    )


def _release_spec(settings: Settings, stack: str) -> ReleaseSpec:
    adapter = settings.metrics_adapter
    return ReleaseSpec(
        chart=adapter.chart,
        chart_version=chart_version(adapter.chart),
        stack=stack,
        rules=settings.adapter_rules,
        relist_interval=adapter.relist_interval,
        prometheus_authorization=settings.prometheus.auth.authorization,
        values=adapter.values,
        adopted=adapter.adopted,
        retain_on_delete=adapter.retain_on_delete,
    )


def _scaling_rules(rules: ScaleUp | ScaleDown) -> ScalingRules:
    return ScalingRules(
        stabilization_window_seconds=rules.stabilization_window_seconds,
        policies=[
            ScalingPolicy(type=policy.type, value=policy.value, period_seconds=policy.period_seconds)
            for policy in rules.policies
        ],
    )
