"""What the account has: asked by the vendor's functions, through the engine and the provider, as the program does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_alicloud as alicloud
from pulumi_alicloud.cs.outputs import GetKubernetesNodePoolsNodepoolResult

from autoscaling.settings import Settings
from commands.account_query import Answers, ask
from components.cluster import AckCluster
from program.args import cluster_args


@dataclass(frozen=True, kw_only=True)
class Account:
    """What belongs to the stack's cluster."""

    kubeconfig: str = field(repr=False)
    vswitch_ids: Sequence[str]
    """The cluster's own."""
    prometheus: str | None = field(repr=False)
    """Address of the cluster's instance, a secret; None: it has none."""
    pools: Sequence[GetKubernetesNodePoolsNodepoolResult]


def look_at_account(settings: Settings) -> Account:
    """Ask the account, by a program that makes nothing, in a state that is thrown away.

    Raises:
        PulumiError: there is no such cluster, no credential, or no way to the account.
    """
    args = cluster_args(settings.cluster, settings.region)

    def program() -> Answers:
        account = alicloud.Provider("account", region=settings.region)
        cluster = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        asked = pulumi.InvokeOutputOptions(provider=account)
        pools = alicloud.cs.get_kubernetes_node_pools_output(cluster_id=cluster.cluster_id, opts=asked)
        prometheus = alicloud.arms.get_prometheus_output(
            ids=cluster.cluster_id.apply(lambda cluster_id: [cluster_id]), enable_details=True, opts=asked
        )
        return {
            "kubeconfig": cluster.kubeconfig,
            "vswitch_ids": cluster.vswitch_ids,
            "pools": pools.nodepools,
            "instances": prometheus.prometheis,
        }

    answers = ask(program)
    addresses = {instance.cluster_id: instance.http_api_intra_url for instance in answers.pop("instances")}
    return Account(prometheus=addresses.get(settings.cluster.id), **answers)
