"""What the account has: asked by the vendor's functions, through the engine and the provider, as the program does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
from pulumi_alicloud.cs.outputs import GetKubernetesNodePoolsNodepoolResult

from autoscaling.ack.instance_types import has_gpus
from autoscaling.settings import Settings
from commands.account_query import ask
from components.cluster import AckCluster
from program.args import cluster_args


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A node pool."""

    pool_id: str
    name: str
    instance_types: Sequence[str]
    vswitch_ids: Sequence[str]
    size: int
    """Nodes that it should have; the autoscaler's business where there are limits."""
    limits: tuple[int, int] | None
    """Of its autoscaler; None: its size is fixed."""
    disk: tuple[str, int]
    """Category and GiB of the system disk."""
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    key_name: str | None
    spot_strategy: str
    spot_limits: Mapping[str, str]
    """Highest price an hour by instance type."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """What belongs to the stack's cluster."""

    cluster_id: str
    kubeconfig: str = field(repr=False)
    vswitch_ids: Sequence[str]
    """The cluster's own."""
    prometheus: str | None = field(repr=False)
    """Address of the cluster's instance, a secret; None: it has none."""
    pools: Sequence[Pool]
    """Those of the name in the settings."""
    other_gpu_pools: Mapping[str, Sequence[str]]
    """Instance types of those of another name, by that."""


def look_at_account(settings: Settings) -> Account:
    """Ask the account, by a program that makes nothing, in a state that is thrown away.

    Raises:
        PulumiError: there is no such cluster, no credential, or no way to the account.
    """
    seen: dict[str, Any] = {}

    args = cluster_args(settings.cluster, settings.region)

    def program() -> None:
        account = alicloud.Provider("account", region=settings.region)
        cluster = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        asked = pulumi.InvokeOutputOptions(provider=account)
        pools = alicloud.cs.get_kubernetes_node_pools_output(cluster_id=cluster.cluster_id, opts=asked)
        prometheus = alicloud.arms.get_prometheus_output(
            ids=cluster.cluster_id.apply(lambda cluster_id: [cluster_id]), enable_details=True, opts=asked
        )
        answers: dict[str, pulumi.Output[Any]] = {
            "kubeconfig": cluster.kubeconfig,
            "vswitch_ids": cluster.vswitch_ids,
            "pools": pools.nodepools,
            "prometheus": prometheus.prometheis,
        }
        for name, answer in answers.items():
            answer.apply(partial(seen.__setitem__, name))

    ask(program)
    cluster_id, name = str(settings.cluster.id), settings.gpu_node_pool.name
    return Account(
        cluster_id=cluster_id,
        kubeconfig=seen["kubeconfig"],
        vswitch_ids=seen["vswitch_ids"],
        prometheus=next(
            (instance.http_api_intra_url for instance in seen["prometheus"] if instance.cluster_id == cluster_id), None
        ),
        pools=[_pool(pool) for pool in seen["pools"] if pool.node_pool_name == name],
        other_gpu_pools={
            pool.node_pool_name: list(pool.instance_types)
            for pool in seen["pools"]
            if pool.node_pool_name != name and any(has_gpus(type_) for type_ in pool.instance_types or [])
        },
    )


def _pool(found: GetKubernetesNodePoolsNodepoolResult) -> Pool:
    scaling: Any = found.scaling_config
    limits = (int(scaling.min_size or 0), int(scaling.max_size or 0)) if scaling and scaling.enable else None
    return Pool(
        pool_id=found.node_pool_id,
        name=found.node_pool_name,
        instance_types=list(found.instance_types),
        vswitch_ids=list(found.vswitch_ids),
        size=int(found.desired_size or 0),
        limits=limits,
        disk=(found.system_disk_category, int(found.system_disk_size)),
        labels={label.key: label.value for label in found.labels or []},
        taints=[{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in found.taints or []],
        key_name=found.key_name or None,
        spot_strategy=found.spot_strategy or "NoSpot",
        spot_limits={limit.instance_type: limit.price_limit for limit in found.spot_price_limits or []},
    )
