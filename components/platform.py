"""The platform: a cluster with GPU nodes, its Prometheus, and an adapter that serves GPU metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi

from components.cluster import AckCluster, AckClusterArgs
from components.gpu_node_pool import GpuNodePool, GpuNodePoolArgs, PoolSpec
from components.metrics_adapter import MetricsAdapter, MetricsAdapterArgs, ReleaseSpec
from components.prometheus import ArmsPrometheus, ArmsPrometheusArgs
from components.warm_capacity import WarmCapacity, WarmCapacityArgs
from live.preflight import SharedSnapshot


@dataclass(frozen=True, kw_only=True)
class PlatformArgs:
    """The parts of the platform."""

    region: str
    cluster: AckClusterArgs
    pool: PoolSpec
    # GPUs of the pool that placeholder pods keep ready
    warm_gpus: int = 0
    # owner of the cluster's Prometheus, as in ArmsPrometheusArgs
    prometheus: Literal["instance", "addon", "existing"] = "instance"
    release: ReleaseSpec
    # shared with the preflight of `cluster`
    snapshot: SharedSnapshot


class Platform(pulumi.ComponentResource):
    """Everything that inference services need. Requires an alicloud provider."""

    cluster: AckCluster
    nodes: GpuNodePool
    adapter: MetricsAdapter

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:Platform", name, None, opts)
        self.cluster = cluster_of(self, args.cluster)
        in_account = _child_of(self)
        in_cluster = pulumi.ResourceOptions.merge(in_account, pulumi.ResourceOptions(providers=[self.cluster.provider]))
        nodes_args = GpuNodePoolArgs(
            cluster_id=self.cluster.cluster_id, cluster_vswitch_ids=self.cluster.vswitch_ids, pool=args.pool
        )
        self.nodes = GpuNodePool("gpu", nodes_args, in_account)
        prometheus_args = ArmsPrometheusArgs(cluster_id=self.cluster.cluster_id, managed_by=args.prometheus)
        prometheus = ArmsPrometheus("prometheus", prometheus_args, in_account)
        adapter_args = MetricsAdapterArgs(
            release=args.release,
            prometheus_url=prometheus.http_api_url,
            kubeconfig=self.cluster.kubeconfig,
            snapshot=args.snapshot,
        )
        self.adapter = MetricsAdapter("adapter", adapter_args, in_cluster)
        if args.warm_gpus:
            warm_args = WarmCapacityArgs(
                pool=args.pool, node_pool_id=self.nodes.node_pool_id, region=args.region, gpus=args.warm_gpus
            )
            WarmCapacity("gpu", warm_args, in_cluster)
        self.register_outputs({"clusterId": self.cluster.cluster_id, "apiServer": self.cluster.api_server})


def cluster_of(platform: pulumi.ComponentResource, args: AckClusterArgs) -> AckCluster:
    """Create the cluster below a platform, or below a bare component as in `commands/access`."""
    return AckCluster("cluster", args, _child_of(platform))


def _child_of(platform: pulumi.ComponentResource) -> pulumi.ResourceOptions:
    # In older stacks, these resources have no parent.
    return pulumi.ResourceOptions(parent=platform, aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)])
